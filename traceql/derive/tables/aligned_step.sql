-- One row per step of one rank: which iteration of the run it is, on one clock.
-- @scope  run
-- @needs  clock, clock_drift_ns, collective, kernel, launch, on_reference_clock, step, trace
-- @column step_id    BIGINT   Step.
-- @column rank       BIGINT   Rank.
-- @column iteration  BIGINT   The same number on all ranks, from 0.
-- @column ts         BIGINT   Start of its first kernel by the first rank's clock, ns since trace.base_time_ns; NULL without kernels.
-- @column dur        BIGINT   From there to the end of its last kernel, by that clock, ns.
-- @column source     VARCHAR  operations (matched ones lead from the first rank's steps to this one's) or position among the steps of its rank.
WITH RECURSIVE
-- Where both ends of an operation say their step: so many steps has one rank counted more.
ended AS (
    SELECT
        collective.match_id,
        collective.rank,
        -- What is received after a step's annotation is what the next step works on.
        step.number + CAST(
            collective.op = 'recv' AND launch.ts >= step.ts + step.dur AS BIGINT
        ) AS number
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    INNER JOIN step ON kernel.step_id = step.step_id
    LEFT JOIN launch ON kernel.launch_id = launch.id
    WHERE collective.match_id IS NOT NULL
),
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
-- From the first rank to all that operations lead to.
reached AS (
    SELECT MIN(rank) AS rank, 0::BIGINT AS ahead, 0 AS hops FROM trace
    UNION
    SELECT ahead.other, reached.ahead + ahead.ahead, reached.hops + 1
    FROM reached
    INNER JOIN ahead USING (rank)
    WHERE reached.hops < 8
),
nearest AS (
    SELECT rank, arg_min(ahead, hops) AS ahead FROM reached GROUP BY rank
)
SELECT
    step.step_id,
    step.rank,
    step.number - COALESCE(nearest.ahead, 0)
    - MIN(step.number - COALESCE(nearest.ahead, 0)) OVER () AS iteration,
    on_reference_clock(step.gpu_ts, clock.offset_ns, clock.drift, clock.at_ns) AS ts,
    step.gpu_dur - clock_drift_ns(step.gpu_dur, clock.drift) AS dur,
    CASE
        WHEN nearest.ahead IS NOT NULL AND step.rank IN (SELECT rank FROM ahead) THEN 'operations'
        ELSE 'position'
    END AS source
FROM step
INNER JOIN clock USING (rank)
LEFT JOIN nearest USING (rank)
ORDER BY step.step_id
