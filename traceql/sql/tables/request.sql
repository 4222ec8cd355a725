-- One row per request and pass; the workload runs in one pass without the profiler and in one with it.
-- @schema main
-- @scope  run
-- @needs  integer_at, run_file, text_at, trace
-- @empty_unless run_file
-- @column run             VARCHAR   Path of the run directory.
-- @column request_id      VARCHAR   Request; the same in both passes.
-- @column profiled        BOOLEAN   Whether the profiler was on in this pass.
-- @column ts              BIGINT    Time at which it was sent, ns since the run's first event; negative before the trace began.
-- @column first_token_ts  BIGINT    Time at which its first token was received, ns since the run's first event.
-- @column last_token_ts   BIGINT    Time at which its last token inside the window was received, ns since the run's first event.
-- @column finished        BOOLEAN   Whether all its tokens were received; FALSE if the recorded window ended before.
-- @column finish_reason   VARCHAR   Reason that the engine gives for its end: length, stop or abort.
-- @column prompt_tokens   BIGINT    Tokens of its prompt; NULL if the prompt was text.
-- @column output_tokens   BIGINT    Tokens received.
-- @column ttft_ns         BIGINT    Time to first token: from sending the request to its first token, ns.
-- @column tpot_ns         BIGINT    Time per output token after the first, ns.
-- @column e2e_ns          BIGINT    End-to-end latency: from sending the request to its last token, ns; NULL if it did not finish.
-- @column itl_ns          BIGINT[]  Inter-token latencies: the intervals between its tokens, in order, ns.
WITH base AS (SELECT MIN(base_time_ns) AS base_ns FROM trace),
measured AS (
    SELECT
        path AS run,
        UNNEST(map_entries(TRY_CAST(metrics -> '$.passes' AS MAP(VARCHAR, JSON)))) AS pass
    FROM run_file
    WHERE metrics IS NOT NULL
),
answered AS (
    SELECT
        run,
        pass.key AS pass,
        UNNEST(from_json(pass.value -> '$.requests', '[{
            "request_id": "JSON",
            "sent_unix_ns": "JSON",
            "first_token_unix_ns": "JSON",
            "last_token_unix_ns": "JSON",
            "finished": "JSON",
            "finish_reason": "JSON",
            "prompt_tokens": "JSON",
            "output_tokens": "JSON",
            "ttft": "JSON",
            "tpot": "JSON",
            "e2e": "JSON",
            "itl": "JSON"
        }]')) AS answer
    FROM measured
)
SELECT
    answered.run,
    text_at(answered.answer.request_id, '$') AS request_id,
    answered.pass = 'profiled' AS profiled,
    TRY(integer_at(answered.answer.sent_unix_ns, '$') - base.base_ns) AS ts,
    TRY(integer_at(answered.answer.first_token_unix_ns, '$') - base.base_ns) AS first_token_ts,
    TRY(integer_at(answered.answer.last_token_unix_ns, '$') - base.base_ns) AS last_token_ts,
    CASE answered.answer.finished WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE END AS finished,
    text_at(answered.answer.finish_reason, '$') AS finish_reason,
    integer_at(answered.answer.prompt_tokens, '$') AS prompt_tokens,
    integer_at(answered.answer.output_tokens, '$') AS output_tokens,
    integer_at(answered.answer.ttft, '$') AS ttft_ns,
    integer_at(answered.answer.tpot, '$') AS tpot_ns,
    integer_at(answered.answer.e2e, '$') AS e2e_ns,
    CASE
        -- Only integers: a list with text or fractions is unknown as a whole.
        WHEN NOT regexp_matches(answered.answer.itl, '[^-0-9,\s\[\]]')
            THEN from_json(answered.answer.itl, '["BIGINT"]')
    END AS itl_ns
FROM answered
CROSS JOIN base
ORDER BY answered.run, profiled, ts
