-- One row per profiled point with tensor parallelism and phase: what a step takes beyond an ideal division of its work.
--
-- Use it to see why TP 2 does not halve a step. A point with TP n is compared with the same point with
-- fewer TP (n0, the smallest that was profiled). The ideal step is n0/n of the step there. Each part is
-- its time in a step less n0/n of that of the base: transfers and waiting that no kernel hides, work that
-- does not shrink (norms, the router, KV heads that are replicated, small products), copies, and idle
-- time. A part is negative if it shrinks by more than n0/n.
--
-- ideal_ns + overhead_ns = step_ns, and transfer + wait + unmatched + work + copies + idle + other_step =
-- overhead_ns, exactly, because each time is rounded to ns first.
--
-- Only steps of equal phase, rows and range of KV lengths are compared whose tokens differ by less than
-- 10% in the mean, weighted by the steps of the base.
-- A step lasts from its first kernel to its last one, is the mean of typical steps and of the ranks
-- that were recorded, and was recorded under the profiler, which makes steps that wait for the host longer.
-- @param  by              VARCHAR = part  One row per point and phase; or one per role besides, whose parts add up to those of the step.
-- @values by              part role
-- @param  phase           VARCHAR = NULL  prefill, decode or mixed; all where NULL.
-- @column point           VARCHAR  Point.
-- @column base            VARCHAR  Point that it is compared with.
-- @column engine          VARCHAR  Engine of the point.
-- @column in_flight       BIGINT   Requests in flight: batch or concurrency; NULL if only a rate limits them.
-- @column prompt_tokens   BIGINT   Tokens of each prompt.
-- @column output_tokens   BIGINT   Tokens that each request generates.
-- @column tp              BIGINT   Ranks that share the work, n.
-- @column base_tp         BIGINT   Ranks that share the work of the base, n0.
-- @column phase           VARCHAR  Phase of the steps.
-- @column role            VARCHAR  Role, or idle or other_step, which have none; NULL with --by part.
-- @column step_ns         BIGINT   Time in a step of one rank, ns; with --by role that of the role.
-- @column ideal_ns        BIGINT   n0/n of the time in the same step of the base, ns.
-- @column overhead_ns     BIGINT   step_ns - ideal_ns, ns: the sum of the parts.
-- @column transfer_ns     BIGINT   Part: exposed transfers, ns; NULL if waiting and transfers cannot be separated.
-- @column wait_ns         BIGINT   Part: exposed waiting for other ranks, ns; NULL if it cannot be separated from transfers.
-- @column unmatched_ns    BIGINT   Part: exposed communication that was not matched on all ranks, ns.
-- @column work_ns         BIGINT   Part: computing that does not shrink, ns.
-- @column copies_ns       BIGINT   Part: exposed copies, ns.
-- @column idle_ns         BIGINT   Part: idle time, ns.
-- @column other_step_ns   BIGINT   Part: time in which kernels of another step run, ns.
-- @column efficiency_pct  DOUBLE   ideal_ns in percent of step_ns; NULL if the step has no such role.
-- @column steps           BIGINT   Compared steps of the point.
-- @column base_steps      BIGINT   Compared steps of the base.
-- @column tokens_pct      DOUBLE   Tokens of a compared step less those in the base, percent of these; NULL if unknown.
-- @column compared_pct    DOUBLE   Compared steps in percent of the GPU time of all steps of the phase, of the point or of the base, whichever is less.
-- @key    point phase role efficiency_pct step_ns ideal_ns overhead_ns transfer_ns wait_ns work_ns idle_ns compared_pct
-- @empty  no two profiled points differ by their TP alone and have steps on a GPU to compare; run a plan with tensor_parallel: [1, 2] and record.profile: true, and see the query profiles
-- @chart  parts x=transfer_ns,wait_ns,unmatched_ns,work_ns,copies_ns,idle_ns,other_step_ns y=point,role total=overhead_ns panel=phase
-- @title  What a step takes beyond an ideal division of its work
WITH profiled AS (
    SELECT *
    FROM point
    WHERE point_id IN (SELECT profile_stratum.point_id FROM profile_stratum)
),
paired AS (
    SELECT
        point.point_id,
        base.point_id AS base_point_id,
        point.tp,
        base.tp AS base_tp
    FROM profiled AS point
    INNER JOIN profiled AS base
        ON point.experiment_id = base.experiment_id
        AND point.model = base.model
        AND point.tp > base.tp
        AND point.pp = base.pp
        AND point.dp = base.dp
        -- Of one GPU, it does not matter how experts are divided.
        AND (point.ep = base.ep OR base.gpus = 1)
        AND point.arguments = base.arguments
        AND point.environment = base.environment
        AND point.load = base.load
        AND point.in_flight IS NOT DISTINCT FROM base.in_flight
        AND point.request_rate IS NOT DISTINCT FROM base.request_rate
        AND point.prompt_tokens = base.prompt_tokens
        AND point.output_tokens = base.output_tokens
    QUALIFY
        ROW_NUMBER() OVER (PARTITION BY point.point_id ORDER BY base.tp, base.ep <> point.ep, base.point_id) = 1
),
-- Lengths in the KV cache count if both sides have them.
grained AS (
    SELECT
        paired.*,
        CASE WHEN own.has_kv AND base.has_kv THEN 'kv' ELSE 'rows' END AS grain
    FROM paired
    INNER JOIN (
        SELECT point_id, BOOL_OR(grain = 'kv') AS has_kv FROM profile_stratum GROUP BY point_id
    ) AS own USING (point_id)
    INNER JOIN (
        SELECT point_id, BOOL_OR(grain = 'kv') AS has_kv FROM profile_stratum GROUP BY point_id
    ) AS base ON paired.base_point_id = base.point_id
),
compared AS (
    SELECT
        grained.*, own.phase, own.stratum,
        own.units AS steps,
        own.tokens, own.gpu_ns,
        base.units AS base_steps,
        base.tokens AS base_tokens,
        base.gpu_ns AS base_gpu_ns,
        base.units / SUM(base.units) OVER (PARTITION BY grained.point_id, own.phase) AS weight
    FROM grained
    INNER JOIN profile_stratum AS own
        ON grained.point_id = own.point_id AND grained.grain = own.grain
    INNER JOIN profile_stratum AS base
        ON grained.base_point_id = base.point_id
        AND grained.grain = base.grain
        AND own.stratum = base.stratum
        AND (own.tokens / base.tokens BETWEEN 0.9 AND 1.1) IS NOT FALSE
    WHERE $phase::VARCHAR IS NULL OR own.phase = $phase::VARCHAR
),
spent AS (
    SELECT point_id, grain, phase, SUM(gpu_ns) AS gpu_ns FROM profile_stratum GROUP BY point_id, grain, phase
),
extent AS (
    SELECT
        compared.point_id, compared.base_point_id,
        ANY_VALUE(compared.tp) AS tp,
        ANY_VALUE(compared.base_tp) AS base_tp,
        compared.phase,
        SUM(compared.steps) AS steps,
        SUM(compared.base_steps) AS base_steps,
        -- If the tokens of one stratum are unknown, so are those of all.
        CASE
            WHEN COUNT(*) = COUNT(compared.tokens + compared.base_tokens)
                THEN 100 * (
                    SUM(compared.weight * compared.tokens ORDER BY compared.stratum)
                    / NULLIF(SUM(compared.weight * compared.base_tokens ORDER BY compared.stratum), 0)
                    - 1
                )
        END AS tokens_pct,
        100.0 * LEAST(
            SUM(compared.gpu_ns) / ANY_VALUE(own.gpu_ns), SUM(compared.base_gpu_ns) / ANY_VALUE(base.gpu_ns)
        ) AS compared_pct
    FROM compared
    INNER JOIN spent AS own
        ON compared.point_id = own.point_id AND compared.grain = own.grain AND compared.phase = own.phase
    INNER JOIN spent AS base
        ON compared.base_point_id = base.point_id AND compared.grain = base.grain AND compared.phase = base.phase
    GROUP BY compared.point_id, compared.base_point_id, compared.phase
),
side AS (
    SELECT
        compared.point_id, compared.phase, own.part, own.role,
        compared.weight * own.ns AS step_ns,
        0 AS ideal_ns
    FROM compared
    INNER JOIN profile_step_part AS own
        ON compared.point_id = own.point_id AND compared.grain = own.grain AND compared.stratum = own.stratum
    UNION ALL
    SELECT
        compared.point_id, compared.phase, base.part, base.role,
        0,
        compared.weight * base.ns * compared.base_tp / compared.tp
    FROM compared
    INNER JOIN profile_step_part AS base
        ON compared.base_point_id = base.point_id AND compared.grain = base.grain AND compared.stratum = base.stratum
),
cell AS (
    SELECT
        point_id, phase, part,
        COALESCE(role, part) AS role,
        CAST(SUM(step_ns ORDER BY step_ns) AS BIGINT) AS step_ns,
        CAST(SUM(ideal_ns ORDER BY ideal_ns) AS BIGINT) AS ideal_ns
    FROM side
    GROUP BY ALL
),
-- Waiting is unknown where communication was not matched, and no other is.
known AS (
    SELECT
        *,
        step_ns - ideal_ns AS ns,
        BOOL_OR(part = 'exposed_unmatched') OVER (PARTITION BY point_id, phase)
        AND NOT BOOL_OR(part IN ('exposed_transfer', 'exposed_wait')) OVER (PARTITION BY point_id, phase) AS is_unmatched
    FROM cell
),
divided AS (
    SELECT
        point_id, phase,
        CASE WHEN $by::VARCHAR = 'role' THEN role END AS role,
        CAST(SUM(step_ns) AS BIGINT) AS step_ns,
        CAST(SUM(ideal_ns) AS BIGINT) AS ideal_ns,
        CAST(SUM(ns) AS BIGINT) AS overhead_ns,
        ANY_VALUE(is_unmatched) AS is_unmatched,
        CAST(COALESCE(SUM(ns) FILTER (part = 'exposed_transfer'), 0) AS BIGINT) AS transfer_ns,
        CAST(COALESCE(SUM(ns) FILTER (part = 'exposed_wait'), 0) AS BIGINT) AS wait_ns,
        CAST(COALESCE(SUM(ns) FILTER (part = 'exposed_unmatched'), 0) AS BIGINT) AS unmatched_ns,
        CAST(COALESCE(SUM(ns) FILTER (part = 'computing'), 0) AS BIGINT) AS work_ns,
        CAST(COALESCE(SUM(ns) FILTER (part = 'exposed_copy'), 0) AS BIGINT) AS copies_ns,
        CAST(COALESCE(SUM(ns) FILTER (part = 'idle'), 0) AS BIGINT) AS idle_ns,
        CAST(COALESCE(SUM(ns) FILTER (part = 'other_step'), 0) AS BIGINT) AS other_step_ns
    FROM known
    GROUP BY ALL
)
SELECT
    own.title AS point,
    base.title AS base,
    point.engine, point.in_flight, point.prompt_tokens, point.output_tokens, extent.tp,
    extent.base_tp, divided.phase, divided.role, divided.step_ns, divided.ideal_ns,
    divided.overhead_ns,
    CASE WHEN NOT divided.is_unmatched THEN divided.transfer_ns END AS transfer_ns,
    CASE WHEN NOT divided.is_unmatched THEN divided.wait_ns END AS wait_ns,
    divided.unmatched_ns, divided.work_ns, divided.copies_ns, divided.idle_ns,
    divided.other_step_ns,
    100.0 * divided.ideal_ns / NULLIF(divided.step_ns, 0) AS efficiency_pct,
    CAST(extent.steps AS BIGINT) AS steps,
    CAST(extent.base_steps AS BIGINT) AS base_steps,
    extent.tokens_pct, extent.compared_pct
FROM divided
INNER JOIN extent USING (point_id, phase)
INNER JOIN point USING (point_id)
INNER JOIN point_label AS own USING (point_id)
INNER JOIN point_label AS base ON extent.base_point_id = base.point_id
ORDER BY divided.phase, divided.point_id, ABS(divided.overhead_ns) DESC, divided.role
