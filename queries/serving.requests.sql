-- One row per request and pass: its latencies, and the engine iterations that it was part of.
--
-- Kernel time is that of the iterations in which the scheduler gave the request tokens; other
-- requests of the same iterations share it, so it must not be added up over requests.
-- @param  limit            INTEGER = 1000  Rows to return.
-- @param  profiled         BOOLEAN = FALSE Only the pass that the trace shows.
-- @column request_id       VARCHAR  Request; the same in both passes.
-- @column pass             VARCHAR  profiled or unprofiled.
-- @column ts               BIGINT   When it was sent, ns since the run's first event.
-- @column prompt_tokens    BIGINT   Tokens of its prompt; NULL where it was text.
-- @column output_tokens    BIGINT   Tokens that arrived.
-- @column finished         BOOLEAN  Whether all its tokens arrived inside the window.
-- @column ttft_ns          BIGINT   Time to first token, ns.
-- @column tpot_ns          BIGINT   Time per output token after the first, ns.
-- @column e2e_ns           BIGINT   End to end, ns; NULL where it did not finish.
-- @column steps            BIGINT   Engine iterations of the lowest rank that had tokens of it; NULL unprofiled.
-- @column shared_kernel_ns BIGINT   Summed kernel time of these iterations, on that rank, ns; NULL unprofiled.
-- @empty  requests come with a run directory: traceql capture, then traceql load runs/NAME
-- @chart  point x=output_tokens y=e2e_ns color=pass
-- @title  End-to-end latency against output tokens
WITH kernel_time AS (
    SELECT step_id, SUM(dur) AS kernel_ns
    FROM kernel
    GROUP BY step_id
),
served AS (
    SELECT
        run,
        request_id,
        COUNT(*) AS steps,
        CAST(COALESCE(SUM(kernel_ns), 0) AS BIGINT) AS shared_kernel_ns
    FROM (
        SELECT *
        FROM request_step
        QUALIFY rank = MIN(rank) OVER (PARTITION BY run, request_id)
    )
    LEFT JOIN kernel_time USING (step_id)
    GROUP BY run, request_id
)
SELECT
    request.request_id,
    CASE WHEN request.profiled THEN 'profiled' ELSE 'unprofiled' END AS pass,
    request.ts,
    request.prompt_tokens,
    request.output_tokens,
    request.finished,
    request.ttft_ns,
    request.tpot_ns,
    request.e2e_ns,
    served.steps,
    served.shared_kernel_ns
FROM request
LEFT JOIN served
    ON request.run = served.run AND request.request_id = served.request_id AND request.profiled
WHERE request.profiled OR NOT $profiled::BOOLEAN
ORDER BY request.ts, request.request_id
LIMIT $limit::INTEGER
