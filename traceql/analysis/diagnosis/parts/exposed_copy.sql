-- One row per kind of copy: how long it ran alone, with nothing computed or transferred, in other steps than the first and last.
-- @kind   scratch
-- @scope  run
-- @needs  device_timeline, engine_step, kernel, time_scale, time_unit
-- @empty_unless device_timeline
-- @column kind    VARCHAR  As the profiler names it, such as Memcpy HtoD (Pageable -> Device).
-- @column copies  BIGINT   Copies of which a part ran alone.
-- @column steps   BIGINT   Steps with such, counted on one rank.
-- @column ns      HUGEINT  What they took alone, ns.
-- @column pct     DOUBLE   Of a step without the profiler (with it, if only that is known), percent.
-- @column claims  STRUCT(unit BIGINT, ns BIGINT)[]  As causes claim it.
-- @column rank    BIGINT   Rank with the longest one.
-- @column ts      BIGINT   Its start, ns since the run's first event.
-- @column dur     BIGINT   Its duration alone, ns.
WITH piece AS (
    SELECT
        CASE WHEN kernel.kind = 'memset' THEN 'Memset' ELSE kernel.name END AS kind,
        device_timeline.rank, device_timeline.step_id, engine_step.number,
        device_timeline.ts, device_timeline.dur, device_timeline.kernel_id
    FROM device_timeline
    INNER JOIN kernel ON device_timeline.kernel_id = kernel.id
    INNER JOIN engine_step
        ON device_timeline.step_id = engine_step.step_id AND device_timeline.device = engine_step.device
    WHERE device_timeline.part = 'exposed_copy' AND NOT engine_step.is_edge
),
of_step AS (
    SELECT kind, step_id, SUM(dur) AS ns FROM piece GROUP BY kind, step_id
),
unit_ns AS (
    SELECT unit, step_id, ns, SUM(ns) OVER (PARTITION BY step_id) AS step_ns FROM time_unit WHERE part = 'copy'
),
claimed AS (
    SELECT of_step.kind, list({'unit': unit, 'ns': CAST(unit_ns.ns * of_step.ns / unit_ns.step_ns AS BIGINT)} ORDER BY unit) AS claims
    FROM of_step
    INNER JOIN unit_ns USING (step_id)
    WHERE unit_ns.step_ns > 0
    GROUP BY of_step.kind
),
summed AS (
    SELECT
        kind,
        COUNT(DISTINCT kernel_id) AS copies,
        COUNT(DISTINCT number) AS steps,
        SUM(dur) AS ns,
        arg_max(rank, dur) AS rank, arg_max(ts, dur) AS ts, MAX(dur) AS dur
    FROM piece
    GROUP BY kind
)
SELECT
    summed.kind, summed.copies, summed.steps, summed.ns,
    100 * summed.ns / (time_scale.step_ns * time_scale.devices * time_scale.steps) AS pct,
    claimed.claims, summed.rank, summed.ts, summed.dur
FROM summed
INNER JOIN claimed USING (kind)
CROSS JOIN time_scale
