-- One row per step with work, on one rank and device: how large it was, and where its time went.
--
-- Time lost to the host is that whose cause lies in the step, on whichever device it was lost.
-- @kind   scratch
-- @scope  run
-- @needs  launch, step, time_unit
-- @column step_id              BIGINT   Step (step.step_id).
-- @column rank                 BIGINT   Rank.
-- @column device               BIGINT   Number of the device on its machine.
-- @column number               BIGINT   Number of the step on its rank.
-- @column phase                VARCHAR  As in step.
-- @column graph_mode           VARCHAR  As in step.
-- @column tokens               BIGINT   Tokens processed; NULL if unknown.
-- @column requests             BIGINT   Requests processed; NULL if unknown.
-- @column context_tokens       BIGINT   As in step.
-- @column generation_requests  BIGINT   As in step.
-- @column generation_tokens    BIGINT   As in step.
-- @column source               VARCHAR  As in step.
-- @column is_edge              BOOLEAN  Whether it is the first or the last step of its rank.
-- @column host_ns              BIGINT   Duration on the host (step.dur), ns; NULL if the trace has no calls of the host.
-- @column busy_ns              BIGINT   Time in which the device computes or moves data, ns.
-- @column span_ns              BIGINT   Time of the step on the device, lost time included, ns.
-- @column host_lost_ns         DOUBLE   Lost to the host of this rank in this step (causes host and sync), of all devices, ns.
-- @column between_ns           DOUBLE   Of it, before the first kernel of the step, ns.
WITH recorded_host AS (SELECT DISTINCT rank FROM launch),
own AS (
    SELECT
        step_id,
        CAST(SUM(ns) AS BIGINT) AS span_ns,
        CAST(COALESCE(SUM(ns) FILTER (part <> 'lost'), 0) AS BIGINT) AS busy_ns
    FROM time_unit
    GROUP BY step_id
),
caused AS (
    SELECT
        root_step_id AS step_id,
        CAST(SUM(ns) AS DOUBLE) AS host_lost_ns,
        CAST(COALESCE(SUM(ns) FILTER (is_between), 0) AS DOUBLE) AS between_ns
    FROM time_unit
    WHERE part = 'lost' AND cause IN ('host', 'sync')
    GROUP BY root_step_id
)
SELECT
    step.step_id, step.rank, step.device, step.number, step.phase, step.graph_mode,
    COALESCE(step.context_tokens, 0) + step.generation_tokens AS tokens,
    COALESCE(step.context_requests, 0) + step.generation_requests AS requests,
    step.context_tokens, step.generation_requests, step.generation_tokens, step.source,
    step.number IN (MIN(step.number) OVER of_rank, MAX(step.number) OVER of_rank) AS is_edge,
    CASE WHEN recorded_host.rank IS NOT NULL THEN step.dur END AS host_ns,
    COALESCE(own.busy_ns, 0) AS busy_ns,
    COALESCE(own.span_ns, 0) AS span_ns,
    COALESCE(caused.host_lost_ns, 0) AS host_lost_ns,
    COALESCE(caused.between_ns, 0) AS between_ns
FROM step
LEFT JOIN own USING (step_id)
LEFT JOIN caused USING (step_id)
LEFT JOIN recorded_host ON step.rank = recorded_host.rank
WHERE step.gpu_dur IS NOT NULL AND step.phase IS DISTINCT FROM 'idle'
WINDOW of_rank AS (PARTITION BY step.rank, step.device)
