-- What spans ranks: which iteration a step is of, what kind of parallelism a group of ranks serves,
-- and how much of an operation computing hides.

CREATE OR REPLACE TABLE aligned_step AS
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
    step.gpu_ts - clock.offset_ns
    - CAST(round(clock.drift * (step.gpu_ts - clock.at_ns)) AS BIGINT) AS ts,
    step.gpu_dur - CAST(round(clock.drift * step.gpu_dur) AS BIGINT) AS dur,
    CASE
        WHEN nearest.ahead IS NOT NULL AND step.rank IN (SELECT rank FROM ahead) THEN 'operations'
        ELSE 'position'
    END AS source
FROM step
INNER JOIN clock USING (rank)
LEFT JOIN nearest USING (rank)
ORDER BY step.step_id;

COMMENT ON TABLE aligned_step IS 'One row per step of one rank: which iteration of the run it is, on one clock.';
COMMENT ON COLUMN aligned_step.step_id IS 'Step.';
COMMENT ON COLUMN aligned_step.rank IS 'Rank.';
COMMENT ON COLUMN aligned_step.iteration IS 'The same number on all ranks, from 0.';
COMMENT ON COLUMN aligned_step.ts IS 'Start of its first kernel by the first rank''s clock, ns since trace.base_time_ns; NULL without kernels.';
COMMENT ON COLUMN aligned_step.dur IS 'From there to the end of its last kernel, by that clock, ns.';
COMMENT ON COLUMN aligned_step.source IS
    'operations (matched ones lead from the first rank''s steps to this one''s) or position among the steps of its rank.';

CREATE OR REPLACE VIEW communicator AS
WITH named AS (
    SELECT DISTINCT group_ranks FROM collective
),
member AS (
    SELECT group_ranks, TRY_CAST(UNNEST(string_split(replace(group_ranks, ' to ', ' '), ' ')) AS BIGINT) AS rank
    FROM named
)
SELECT
    member.group_ranks,
    CASE
        WHEN COUNT(DISTINCT layout.pp_rank) > 1 THEN 'pipeline'
        WHEN COUNT(DISTINCT layout.dp_rank) > 1 THEN 'data'
        -- Of its ranks perhaps only one was loaded.
        WHEN MAX(layout.pp_size) = 1 AND MAX(layout.tp_size) = 1 AND MAX(layout.dp_size) > 1 THEN 'data'
        WHEN MAX(layout.tp_size) IS NULL THEN 'unknown'
        ELSE 'tensor'
    END AS scope
FROM member
LEFT JOIN layout USING (rank)
GROUP BY member.group_ranks;

COMMENT ON VIEW communicator IS 'One row per group of ranks that communicate.';
COMMENT ON COLUMN communicator.group_ranks IS 'Its ranks; as in collective.';
COMMENT ON COLUMN communicator.scope IS
    'tensor (ranks of one pipeline stage of one replica), data (of several replicas), pipeline (of several stages), or unknown.';

CREATE OR REPLACE VIEW hidden_operation AS
WITH computing AS (
    SELECT
        rank,
        device,
        ts,
        dur,
        SUM(dur) OVER (
            PARTITION BY rank, device ORDER BY ts ROWS UNBOUNDED PRECEDING
        ) - dur AS before_ns
    FROM device_state
    WHERE comm AND compute
),
point AS (
    SELECT kernel.id, kernel.rank, kernel.device, kernel.ts, -1 AS sign
    FROM kernel
    WHERE kernel.category = 'collective'
    UNION ALL
    SELECT kernel.id, kernel.rank, kernel.device, kernel.ts + kernel.dur, 1
    FROM kernel
    WHERE kernel.category = 'collective'
)
SELECT
    point.id AS kernel_id,
    CAST(SUM(point.sign * COALESCE(
        computing.before_ns + LEAST(point.ts - computing.ts, computing.dur), 0
    )) AS BIGINT) AS hidden_ns
FROM point
ASOF LEFT JOIN computing
    ON point.rank = computing.rank
    AND point.device = computing.device
    AND point.ts >= computing.ts
GROUP BY point.id;

COMMENT ON VIEW hidden_operation IS 'One row per collective or point-to-point operation on one rank: how much of it computing hides.';
COMMENT ON COLUMN hidden_operation.kernel_id IS 'Row of kernel.';
COMMENT ON COLUMN hidden_operation.hidden_ns IS 'Its device computed meanwhile, ns.';
