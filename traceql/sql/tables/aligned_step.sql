-- One row per step: which engine iteration of the run it is, and its times by the reference clock.
--
-- Each rank counts its own steps, and the recording of a rank may begin one step later than that of
-- another rank. Matched operations show by how many steps the counts differ.
-- @scope  run
-- @needs  clock, collective, kernel, launch, on_reference_clock, step, trace
-- @column step_id    BIGINT   Step (step.step_id).
-- @column rank       BIGINT   Rank that ran the step.
-- @column iteration  BIGINT   Number of the engine iteration in the run, from 0; the same on all ranks.
-- @column ts         BIGINT   Start of its first kernel by the reference clock, ns since the run's first event; NULL without kernels.
-- @column dur        BIGINT   From the start of its first kernel to the end of its last kernel by the reference clock, ns; NULL without kernels.
-- @column source     VARCHAR  How iteration is known: operations (matched operations connect the steps of this rank with those of other ranks) or position (from the position of the step in its rank alone).
WITH RECURSIVE
-- The number of the step that each rank took a matched operation for.
ended AS (
    SELECT
        collective.match_id, collective.rank,
        -- Data received after the annotation of a step is for the next step.
        step.number + CAST(
            collective.op = 'recv' AND launch.ts >= step.ts + step.dur AS BIGINT
        ) AS number
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    INNER JOIN step ON kernel.step_id = step.step_id
    LEFT JOIN launch ON kernel.launch_id = launch.id
    WHERE collective.match_id IS NOT NULL
),
-- By how many steps the count of `other` is ahead, according to most of the operations.
ahead AS (
    SELECT rank, other, mode(ahead) AS ahead
    FROM (
        SELECT ended.rank, other.rank AS other, other.number - ended.number AS ahead
        FROM ended
        INNER JOIN ended AS other
            ON ended.match_id = other.match_id AND ended.rank <> other.rank
    )
    GROUP BY rank, other
),
-- All ranks that operations connect with the lowest one, directly or through other ranks.
reached AS (
    SELECT MIN(rank) AS rank, 0::BIGINT AS ahead, 0 AS hops FROM trace
    UNION
    SELECT ahead.other, reached.ahead + ahead.ahead, reached.hops + 1
    FROM reached
    INNER JOIN ahead USING (rank)
    WHERE reached.hops < 8
),
nearest AS (SELECT rank, arg_min(ahead, hops) AS ahead FROM reached GROUP BY rank)
SELECT
    step.step_id, step.rank,
    step.number - COALESCE(nearest.ahead, 0)
    - MIN(step.number - COALESCE(nearest.ahead, 0)) OVER () AS iteration,
    on_reference_clock(step.gpu_ts, clock.offset_ns, clock.drift, clock.at_ns) AS ts,
    step.gpu_dur - CAST(round(clock.drift * step.gpu_dur) AS BIGINT) AS dur,
    CASE
        WHEN nearest.ahead IS NOT NULL AND step.rank IN (SELECT rank FROM ahead) THEN 'operations'
        ELSE 'position'
    END AS source
FROM step
INNER JOIN clock USING (rank)
LEFT JOIN nearest USING (rank)
ORDER BY step.step_id
