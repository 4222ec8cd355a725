-- Python's garbage collector stops a process for many milliseconds now and then.
--
-- It may be a process that the trace does not have, such as the scheduler's: then all devices wait between steps.
-- @title   garbage collection
-- @group   host
-- @unless  slow_host_rank
-- @query   idle.gaps
-- @record  Record a run with VLLM_GC_DEBUG=1 in the environment, whose log has each collection.
-- @source  vLLM 0.25, vllm/utils/gc_utils.py: what it logs; collections of 10 to 200 ms grow with the objects of a process
-- @needs   engine_step, log_message, run, step_count, time_scale, time_unit, trace
-- @empty_unless time_unit
WITH collection AS (
    SELECT
        TRY_CAST(regexp_extract(log_message.text, 'GC took ([0-9.]+)ms', 1) AS DOUBLE) * 1000000 AS ns,
        log_message.unix_ns - base.base_ns BETWEEN run.window_ts - 1000000000 AND run.window_ts + run.window_dur AS is_recorded
    FROM log_message
    INNER JOIN run USING (run)
    CROSS JOIN (SELECT MIN(base_time_ns) AS base_ns FROM trace) AS base
    WHERE contains(log_message.text, 'GC took')
),
logged AS (
    SELECT
        COUNT(*) AS lines,
        COUNT(*) FILTER (ns >= 5000000 AND is_recorded) AS long_ones,
        MAX(ns) FILTER (is_recorded) AS longest_ns
    FROM collection
),
gap AS (
    SELECT time_unit.*
    FROM time_unit
    INNER JOIN engine_step USING (step_id)
    WHERE
        time_unit.part = 'lost' AND time_unit.cause IN ('host', 'sync') AND NOT time_unit.is_waiting
        AND time_unit.longest_ns BETWEEN 10000000 AND 200000000 AND NOT engine_step.is_edge
),
-- A stop that long in many steps is not rare.
counted AS (
    SELECT
        COUNT(DISTINCT gap.number) AS stops,
        MIN(gap.longest_ns) AS shortest_ns, MAX(gap.longest_ns) AS longest_ns,
        arg_max(gap.rank, gap.longest_ns) AS rank,
        arg_max(gap.longest_ts, gap.longest_ns) AS ts,
        ANY_VALUE(time_scale.steps) AS steps
    FROM time_scale
    LEFT JOIN gap ON TRUE
),
-- Stops that are as long as a collection in the log.
matched AS (
    SELECT DISTINCT gap.unit, gap.longest_ns AS ns
    FROM gap
    INNER JOIN collection ON gap.longest_ns BETWEEN 0.8 * collection.ns AND 1.5 * collection.ns
    WHERE collection.is_recorded AND collection.ns >= 5000000
),
claimed AS (
    SELECT list({'unit': unit, 'ns': ns} ORDER BY unit) AS claims, COUNT(*) AS stops, SUM(ns) AS ns FROM matched
)
SELECT
    CASE
        WHEN NOT step_count.has_launches THEN NULL
        WHEN counted.stops = 0 OR counted.stops > 0.1 * counted.steps THEN FALSE
        WHEN claimed.stops > 0 THEN TRUE
        WHEN logged.lines > 0 THEN FALSE
    END AS is_confirmed,
    CASE
        WHEN NOT step_count.has_launches THEN 'launch calls were not recorded'
        WHEN counted.stops = 0 THEN 'no stop of a host lasts 10 to 200 ms'
        WHEN counted.stops > 0.1 * counted.steps THEN 'stops of 10 ms and more are in more than a tenth of the steps, and collections are rare'
        WHEN claimed.stops = 0 AND logged.lines > 0 THEN 'the log has no collection that is as long as a stop'
        WHEN claimed.stops = 0 THEN format(
            'devices are idle for {:.0f} ms in one of {} steps; whether it is a collection, VLLM_GC_DEBUG=1 would log', counted.longest_ns / 1e6, counted.steps
        )
    END AS reason,
    format('Garbage collections of up to {:.0f} ms stop {} of {} steps', logged.longest_ns / 1e6, counted.stops, counted.steps) AS headline,
    [
        format('The log has {} collections of 5 ms and more in the recorded time.', logged.long_ones),
        format('Devices are idle for {:.0f} to {:.0f} ms in these steps.', counted.shortest_ns / 1e6, counted.longest_ns / 1e6)
    ] AS evidence,
    'gc.collect(); gc.freeze() in the program, after its engine has started (vLLM does so in its own processes)' AS remedy,
    'Collections grow with the objects of a process, so a longer run may stop for longer.' AS unknowns,
    claimed.claims, counted.stops AS samples, counted.rank, counted.ts, counted.longest_ns AS dur
FROM counted
CROSS JOIN claimed
CROSS JOIN step_count
CROSS JOIN logged
