-- One row per request and workload pass: its latencies, how many steps served it, and their kernel time.
--
-- Use it to find slow requests and to relate them to the trace. Table request_step says which steps
-- served a request. Kernel time is the total kernel time of the steps in which the scheduler gave
-- the request tokens. Requests in the same step share it, so do not add it up across requests.
-- @param  limit            INTEGER = 1000  Maximum number of rows.
-- @param  profiled         BOOLEAN = FALSE Only the pass that is in the trace.
-- @column request_id       VARCHAR  Request; the same in both passes.
-- @column pass             VARCHAR  profiled or unprofiled.
-- @column ts               BIGINT   Time at which it was sent, ns since the run's first event.
-- @column prompt_tokens    BIGINT   Tokens of its prompt; NULL if the prompt was text.
-- @column output_tokens    BIGINT   Tokens received.
-- @column finished         BOOLEAN  Whether all its tokens were received inside the window.
-- @column ttft_ns          BIGINT   Time to first token, ns.
-- @column tpot_ns          BIGINT   Time per output token after the first, ns.
-- @column e2e_ns           BIGINT   From sending the request to its last token, ns; NULL if it did not finish.
-- @column steps            BIGINT   Number of steps, on the lowest loaded rank, that processed its tokens; NULL if unprofiled.
-- @column shared_kernel_ns BIGINT   Total kernel time of these steps on that rank, ns; NULL if unprofiled.
-- @key    request_id pass ttft_ns tpot_ns e2e_ns output_tokens prompt_tokens finished
-- @empty  there are no requests; they come with run directories (traceql capture, then traceql load runs/NAME)
-- @chart  point x=output_tokens y=e2e_ns color=pass
-- @title  End-to-end latency by output tokens
WITH kernel_time AS (
    SELECT step_id, SUM(dur) AS kernel_ns
    FROM kernel
    GROUP BY step_id
),
served AS (
    SELECT
        run, request_id,
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
    request.ts, request.prompt_tokens, request.output_tokens, request.finished, request.ttft_ns,
    request.tpot_ns, request.e2e_ns, served.steps, served.shared_kernel_ns
FROM request
LEFT JOIN served
    ON request.run = served.run AND request.request_id = served.request_id AND request.profiled
WHERE request.profiled OR NOT $profiled::BOOLEAN
ORDER BY request.ts, request.request_id
LIMIT $limit::INTEGER
