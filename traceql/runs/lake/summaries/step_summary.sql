-- One row per step with kernels, on each device: how long it took, and how many rows it ran.
-- @column rank     BIGINT   Rank.
-- @column step_id  BIGINT   Step (step.step_id).
-- @column number   BIGINT   Position among the steps of its rank, from 0.
-- @column phase    VARCHAR  prefill, decode, mixed or idle; unknown if the step has none.
-- @column rows_to  BIGINT   Rows that its kernels run, padding included, rounded up: to a multiple of 8, beyond 256 to a power of two; NULL if unknown.
-- @column ts       BIGINT   Start of its first kernel, or the end of the step before if that is later (step.gpu_ts), ns since the run's first event.
-- @column gpu_ns   BIGINT   From then to the end of its last kernel, ns.
-- @column wait_ns  BIGINT   Time in which collectives only waited for a late rank, ns.
-- @column idle_ns  BIGINT   Time in which nothing ran, ns.
-- @column host_ns  BIGINT   Part of idle_ns in which the host had launched nothing, ns.
WITH parts AS (
    SELECT
        step_id,
        SUM(ns) FILTER (part = 'exposed_wait') AS wait_ns,
        SUM(ns) FILTER (part = 'idle') AS idle_ns,
        SUM(ns) FILTER (part = 'idle' AND cause IN ('host', 'sync')) AS host_ns
    FROM step_time
    GROUP BY step_id
),
counted AS (
    SELECT
        step.rank, step.step_id, step.number,
        COALESCE(step.phase, 'unknown') AS phase,
        COALESCE(step_tokens.executed_tokens, step_tokens.tokens) AS rows_run,
        step.gpu_ts AS ts,
        step.gpu_dur AS gpu_ns
    FROM step
    LEFT JOIN step_tokens USING (step_id)
    WHERE step.gpu_dur IS NOT NULL
)
SELECT
    counted.rank, counted.step_id, counted.number, counted.phase,
    CAST(
        CASE
            WHEN counted.rows_run <= 2 THEN counted.rows_run
            WHEN counted.rows_run <= 4 THEN 4
            WHEN counted.rows_run <= 256 THEN 8 * CEIL(counted.rows_run / 8)
            ELSE 2 ** CEIL(LOG2(counted.rows_run))
        END AS BIGINT
    ) AS rows_to,
    counted.ts, counted.gpu_ns,
    CAST(COALESCE(parts.wait_ns, 0) AS BIGINT) AS wait_ns,
    CAST(COALESCE(parts.idle_ns, 0) AS BIGINT) AS idle_ns,
    CAST(COALESCE(parts.host_ns, 0) AS BIGINT) AS host_ns
FROM counted
LEFT JOIN parts USING (step_id)
ORDER BY counted.rank, counted.number
