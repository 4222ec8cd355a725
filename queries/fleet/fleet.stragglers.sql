-- One row per GPU or host: how much slower it is than its peers at the same work.
--
-- Use it to find a slow machine. The same work is a role in steps of one phase and one
-- number of rows, on one pipeline stage of one set-up (lake_run.setup). Each GPU has the median of its
-- runs there, without waiting for late ranks, and is compared with the median of all GPUs that did the
-- same work, in deviations: 1.4826 x the median distance from that median (MAD), at least 0.5% of it.
-- Kernels of communication are left out, because a slow peer makes them slow too. z is the median over
-- all such work; a GPU or host is slower if z is 3.5 or more (Iglewicz and Hoaglin 1993) and its work
-- takes at least 1% more time, and faster if both are true the other way round.
-- @param  limit         INTEGER = 20     Maximum number of rows.
-- @param  by            VARCHAR = 'gpu'  What is compared: GPUs, or hosts.
-- @param  peers         INTEGER = 3      Least number of GPUs or hosts that did the same work, the row's own included.
-- @values by            gpu host
-- @range  peers         3 1000000
-- @column gpu           VARCHAR  Identifier of the GPU; run and rank if unknown. NULL if by is host.
-- @column host          VARCHAR  Host; NULL if unknown.
-- @column gpu_name      VARCHAR  Kind of the GPU.
-- @column verdict       VARCHAR  slower or faster, beyond the spread of its peers, or no change.
-- @column slow_pct      DOUBLE   How much more time its work takes than that of the median peer, percent.
-- @column low_pct       DOUBLE   The same of each kind of work, percent: a quarter of them are below this.
-- @column high_pct      DOUBLE   A quarter of them are above this, percent.
-- @column z             DOUBLE   Median of its deviations from its peers.
-- @column peers         BIGINT   Most GPUs or hosts that it was compared with, itself included.
-- @column compared      BIGINT   Kinds of work that were compared.
-- @column excess_ns     BIGINT   What its steps took more than those of the median peer, ns.
-- @column role          VARCHAR  Role that cost most of it.
-- @column phase         VARCHAR  Phase of the steps of that role.
-- @column role_pct      DOUBLE   How much more time the role takes than that of the median peer, percent.
-- @column runs          BIGINT   Its runs.
-- @column run           VARCHAR  Run in which it lost most.
-- @column path          VARCHAR  Its trace there.
-- @key    gpu host gpu_name verdict slow_pct z peers role phase role_pct runs run
-- @empty  no work was done by three GPUs or hosts; add more runs of one set-up, or see --by host
-- @chart  bar x=excess_ns y=gpu,host color=verdict
-- @title  What the steps of a GPU or host took more than those of its median peer
WITH one_rank AS (
    SELECT
        rank_summary.run, rank_summary.rank, lake_run.setup, rank_summary.pp_rank,
        rank_summary.host, rank_summary.device_name, rank_summary.path,
        COALESCE(rank_summary.gpu, format('{} rank {}', rank_summary.run, rank_summary.rank)) AS gpu,
        CASE
            WHEN $by::VARCHAR = 'host' THEN rank_summary.host
            ELSE COALESCE(rank_summary.gpu, format('{} rank {}', rank_summary.run, rank_summary.rank))
        END AS unit
    FROM rank_summary
    INNER JOIN lake_run USING (run)
),
worked AS (
    SELECT
        one_rank.unit, one_rank.run, one_rank.path, one_rank.setup, one_rank.pp_rank,
        role_summary.phase, role_summary.rows_to, role_summary.role, role_summary.steps,
        role_summary.median_ns
    FROM one_rank
    INNER JOIN role_summary ON one_rank.run = role_summary.run AND one_rank.rank = role_summary.rank
    WHERE one_rank.unit IS NOT NULL AND NOT role_summary.is_comm
),
own AS (
    SELECT
        unit, setup, pp_rank, phase, rows_to, role,
        SUM(steps) AS steps,
        MEDIAN(median_ns) AS ns,
        arg_max({'run': run, 'path': path}, [median_ns * steps, hash(run)]) AS longest
    FROM worked
    GROUP BY unit, setup, pp_rank, phase, rows_to, role
),
compared AS (
    SELECT *, COUNT(*) OVER same_work AS peers, MEDIAN(ns) OVER same_work AS middle_ns
    FROM own
    WHERE setup IS NOT NULL AND pp_rank IS NOT NULL AND phase IS NOT NULL AND role IS NOT NULL
    WINDOW same_work AS (PARTITION BY setup, pp_rank, phase, rows_to, role)
    QUALIFY peers >= $peers::INTEGER AND middle_ns > 0
),
measured AS (
    SELECT
        *,
        MEDIAN(ABS(ns - middle_ns)) OVER (PARTITION BY setup, pp_rank, phase, rows_to, role) AS mad_ns,
        (ns - middle_ns) / GREATEST(1.4826 * mad_ns, 0.005 * middle_ns) AS z,
        (ns - middle_ns) * steps AS excess_ns
    FROM compared
),
summed AS (
    SELECT
        unit,
        MAX(peers) AS peers,
        COUNT(*) AS compared,
        MEDIAN(z) AS z,
        quantile_cont(100 * (ns / middle_ns - 1), 0.25) AS low_pct,
        quantile_cont(100 * (ns / middle_ns - 1), 0.75) AS high_pct,
        SUM(excess_ns ORDER BY excess_ns) AS excess_ns,
        SUM(middle_ns * steps ORDER BY middle_ns * steps) AS expected_ns,
        arg_max(
            {
                'role': role,
                'phase': phase,
                'run': longest.run,
                'path': longest.path,
                'pct': 100 * (ns / middle_ns - 1)
            },
            excess_ns
        ) AS worst
    FROM measured
    GROUP BY unit
),
placed AS (
    SELECT
        unit,
        ANY_VALUE(host) AS host,
        CASE WHEN $by::VARCHAR = 'gpu' THEN unit END AS gpu,
        STRING_AGG(DISTINCT device_name, ', ' ORDER BY device_name) AS gpu_name,
        COUNT(DISTINCT run) AS runs
    FROM one_rank
    WHERE unit IS NOT NULL
    GROUP BY unit
)
SELECT
    placed.gpu, placed.host, placed.gpu_name,
    CASE
        WHEN summed.z >= 3.5 AND summed.excess_ns >= 0.01 * summed.expected_ns THEN 'slower'
        WHEN summed.z <= -3.5 AND summed.excess_ns <= -0.01 * summed.expected_ns THEN 'faster'
        ELSE 'no change'
    END AS verdict,
    100 * summed.excess_ns / summed.expected_ns AS slow_pct,
    summed.low_pct, summed.high_pct, summed.z, summed.peers, summed.compared,
    CAST(summed.excess_ns AS BIGINT) AS excess_ns,
    summed.worst.role AS role,
    summed.worst.phase AS phase,
    summed.worst.pct AS role_pct,
    placed.runs,
    summed.worst.run AS run,
    summed.worst.path AS path
FROM summed
INNER JOIN placed USING (unit)
ORDER BY verdict = 'slower' DESC, summed.z DESC, placed.unit
LIMIT $limit::INTEGER
