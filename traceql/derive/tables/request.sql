-- One row per request and pass: the workload runs without and with the profiler.
-- @scope  run
-- @needs  run_file, trace
-- @column run             VARCHAR   Path of the run directory.
-- @column request_id      VARCHAR   Request; the same in both passes.
-- @column profiled        BOOLEAN   Whether the profiler was on.
-- @column ts              BIGINT    When it was sent, ns since trace.base_time_ns; negative before the trace began.
-- @column first_token_ts  BIGINT    When its first token arrived, ns since trace.base_time_ns.
-- @column last_token_ts   BIGINT    When its last token inside the window arrived, ns since trace.base_time_ns.
-- @column finished        BOOLEAN   Whether all its tokens arrived; FALSE where the recorded window ended before.
-- @column finish_reason   VARCHAR   As the engine says: length, stop, abort.
-- @column prompt_tokens   BIGINT    Tokens of its prompt; NULL where it was text.
-- @column output_tokens   BIGINT    Tokens that arrived.
-- @column ttft_ns         BIGINT    Time to first token: first token - sent, ns.
-- @column tpot_ns         BIGINT    Time per output token after the first, ns.
-- @column e2e_ns          BIGINT    End to end: last token - sent, ns; NULL where it did not finish.
-- @column itl_ns          BIGINT[]  Each inter-token latency, ns, in order.
WITH base AS (
    SELECT MIN(base_time_ns) AS base_ns FROM trace
),
measured AS (
    SELECT
        path AS run,
        UNNEST(map_entries(CAST(metrics -> '$.passes' AS MAP(VARCHAR, JSON)))) AS pass
    FROM run_file
    WHERE metrics IS NOT NULL
),
answered AS (
    SELECT
        run,
        pass.key AS pass,
        UNNEST(from_json(pass.value -> '$.requests', '[{
            "request_id": "VARCHAR",
            "sent_unix_ns": "BIGINT",
            "first_token_unix_ns": "BIGINT",
            "last_token_unix_ns": "BIGINT",
            "finished": "BOOLEAN",
            "finish_reason": "VARCHAR",
            "prompt_tokens": "BIGINT",
            "output_tokens": "BIGINT",
            "ttft": "BIGINT",
            "tpot": "BIGINT",
            "e2e": "BIGINT",
            "itl": ["BIGINT"]
        }]')) AS answer
    FROM measured
)
SELECT
    answered.run,
    answered.answer.request_id,
    answered.pass = 'profiled' AS profiled,
    answered.answer.sent_unix_ns - base.base_ns AS ts,
    answered.answer.first_token_unix_ns - base.base_ns AS first_token_ts,
    answered.answer.last_token_unix_ns - base.base_ns AS last_token_ts,
    answered.answer.finished,
    answered.answer.finish_reason,
    answered.answer.prompt_tokens,
    answered.answer.output_tokens,
    answered.answer.ttft AS ttft_ns,
    answered.answer.tpot AS tpot_ns,
    answered.answer.e2e AS e2e_ns,
    answered.answer.itl AS itl_ns
FROM answered
CROSS JOIN base
ORDER BY answered.run, profiled, ts
