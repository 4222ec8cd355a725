-- One row per set-up, two commits that follow each other, phase and role: how the time of a step changed, and whether that is real.
--
-- Use it to see which commit made which part of the model slower. Commits are in the order of their
-- first runs; only runs of one set-up are compared (lake_run.setup), and only steps of strata that all
-- runs of both commits have: one phase and one number of rows. base_ns and new_ns are the time of a
-- role in a step of the strata, mean of the GPUs, without waiting for late ranks: the median of the
-- runs. The role step is the whole GPU span, with waiting and idle time.
--
-- The statistics are those of traceql diff: the unit is the run, change_pct is the Hodges-Lehmann
-- estimate, its interval of 95% is exact and needs four runs of each commit, and a change of less than
-- 1% is none. Of many rows, one in twenty may be significant by chance. Of a commit with more than 20
-- runs, the latest 20 count.
-- @param  limit        INTEGER = 20            Maximum number of rows.
-- @param  by           VARCHAR = 'git_commit'  What runs are grouped by: the commit of the folder in which they were started, the version of vLLM or that of PyTorch.
-- @param  phase        VARCHAR = NULL          Only this phase; all by default.
-- @param  role         VARCHAR = NULL          Only this role, such as step or attention; all by default.
-- @values by           git_commit vllm_version torch_version
-- @values phase        prefill decode mixed idle unknown
-- @column model        VARCHAR  Name of the model, or else the family and number of its layers.
-- @column gpu_name     VARCHAR  Kinds of the GPUs.
-- @column phase        VARCHAR  Phase of the steps.
-- @column role         VARCHAR  Part of the model, or step for the GPU span of a step.
-- @column base_commit  VARCHAR  Commit before, or version.
-- @column new_commit   VARCHAR  Commit after, or version.
-- @column base_ns      DOUBLE   Median of the runs before, ns.
-- @column new_ns       DOUBLE   Median of the runs after, ns.
-- @column delta_ns     DOUBLE   new_ns - base_ns, ns.
-- @column change_pct   DOUBLE   Change, percent; NULL if a run has none of it.
-- @column low_pct      DOUBLE   Lower end of its interval, percent; NULL with fewer than four runs of a commit.
-- @column high_pct     DOUBLE   Upper end of its interval, percent.
-- @column verdict      VARCHAR  slower, faster, no change, inconclusive, or no verdict (too few runs).
-- @column base_runs    BIGINT   Runs before.
-- @column new_runs     BIGINT   Runs after.
-- @column setup        VARCHAR  Set-up that both have (lake_run.setup).
-- @column new_run      VARCHAR  Latest run after the change.
-- @key    model phase role base_commit new_commit base_ns new_ns change_pct low_pct high_pct verdict base_runs new_runs
-- @empty  no set-up has runs of two commits that share a stratum; run.json notes the commit of captures that were started inside a git checkout, and --by vllm_version or torch_version compares versions
-- @chart  forest x=change_pct,low_pct,high_pct y=phase,role,new_commit color=verdict
-- @title  Change of a step's time by role, from commit to commit
WITH versioned AS (
    SELECT
        run, setup,
        COALESCE(model, format('{}, {} layers', family, layers), family) AS model,
        gpu_name, started,
        CASE $by::VARCHAR
            WHEN 'vllm_version' THEN vllm_version
            WHEN 'torch_version' THEN torch_version
            ELSE git_commit
        END AS version
    FROM lake_run
    WHERE status = 'ok'
),
latest AS (
    SELECT *
    FROM versioned
    WHERE version IS NOT NULL
    QUALIFY ROW_NUMBER() OVER (PARTITION BY setup, version ORDER BY started DESC NULLS LAST, run) <= 20
),
version AS (
    SELECT
        setup, version,
        ANY_VALUE(model) AS model,
        ANY_VALUE(gpu_name) AS gpu_name,
        COUNT(*) AS runs,
        arg_max(run, [started, run]) AS last_run,
        ROW_NUMBER() OVER (PARTITION BY setup ORDER BY MIN(started) NULLS FIRST, version) AS place
    FROM latest
    GROUP BY setup, version
),
pair AS (
    SELECT
        base.setup, base.model, base.gpu_name,
        base.version AS base_version,
        new.version AS new_version,
        base.runs AS base_runs,
        new.runs AS new_runs,
        new.last_run
    FROM version AS base
    INNER JOIN version AS new ON base.setup = new.setup AND base.place + 1 = new.place
),
member AS (
    SELECT pair.setup, pair.new_version, latest.run, latest.version = pair.new_version AS is_new
    FROM pair
    INNER JOIN latest ON pair.setup = latest.setup AND latest.version IN (pair.base_version, pair.new_version)
),
-- A stratum counts as often as all runs of both sides together have it.
shared AS (
    SELECT
        member.setup, member.new_version, profile_stratum.stratum,
        ANY_VALUE(profile_stratum.phase) AS phase,
        SUM(profile_stratum.units) AS weight
    FROM member
    INNER JOIN profile_stratum ON member.run = profile_stratum.run
    INNER JOIN pair ON member.setup = pair.setup AND member.new_version = pair.new_version
    WHERE profile_stratum.grain = 'rows' AND ($phase::VARCHAR IS NULL OR profile_stratum.phase = $phase::VARCHAR)
    GROUP BY member.setup, member.new_version, profile_stratum.stratum
    HAVING COUNT(*) = ANY_VALUE(pair.base_runs + pair.new_runs)
),
weighed AS (
    SELECT setup, new_version, phase, SUM(weight) AS weight FROM shared GROUP BY setup, new_version, phase
),
-- Of a run without a role in a stratum, the role took no time there.
timed AS (
    SELECT
        shared.setup, shared.new_version, shared.phase, member.is_new, member.run,
        profile_metric.metric AS role,
        SUM(
            shared.weight * profile_metric.ns / profile_stratum.lanes
            ORDER BY shared.weight * profile_metric.ns / profile_stratum.lanes
        ) / ANY_VALUE(weighed.weight) AS ns
    FROM shared
    INNER JOIN weighed
        ON shared.setup = weighed.setup AND shared.new_version = weighed.new_version AND shared.phase = weighed.phase
    INNER JOIN member ON shared.setup = member.setup AND shared.new_version = member.new_version
    INNER JOIN profile_stratum
        ON member.run = profile_stratum.run
        AND shared.stratum = profile_stratum.stratum
        AND profile_stratum.grain = 'rows'
    INNER JOIN profile_metric
        ON member.run = profile_metric.run
        AND shared.stratum = profile_metric.stratum
        AND profile_metric.grain = 'rows'
    WHERE
        (profile_metric.kind = 'role' OR profile_metric.metric = 'step')
        AND ($role::VARCHAR IS NULL OR profile_metric.metric = $role::VARCHAR)
    GROUP BY shared.setup, shared.new_version, shared.phase, member.is_new, member.run, profile_metric.metric
),
sided AS (
    SELECT
        timed.setup, timed.new_version, timed.phase, timed.role,
        ANY_VALUE(pair.base_runs) AS base_runs,
        ANY_VALUE(pair.new_runs) AS new_runs,
        list_resize(
            COALESCE(LIST(timed.ns ORDER BY timed.ns DESC) FILTER (NOT timed.is_new), []), ANY_VALUE(pair.base_runs), 0
        ) AS base,
        list_resize(
            COALESCE(LIST(timed.ns ORDER BY timed.ns DESC) FILTER (timed.is_new), []), ANY_VALUE(pair.new_runs), 0
        ) AS new
    FROM timed
    INNER JOIN pair ON timed.setup = pair.setup AND timed.new_version = pair.new_version
    GROUP BY timed.setup, timed.new_version, timed.phase, timed.role
),
compared AS (
    SELECT
        sided.*,
        CASE
            WHEN list_min(base) > 0 AND list_min(new) > 0
                THEN list_sort(flatten([[LN(after) - LN(before) FOR after IN new] FOR before IN base]))
        END AS differences,
        interval_place.place
    FROM sided
    LEFT JOIN interval_place ON sided.base_runs = interval_place.base_runs AND sided.new_runs = interval_place.new_runs
),
estimated AS (
    SELECT
        *,
        -- Of an even number of runs, the lower one in the middle, so that a run has it.
        list_sort(base)[(LEN(base) + 1) // 2] AS base_ns,
        list_sort(new)[(LEN(new) + 1) // 2] AS new_ns,
        EXP(list_median(differences)) - 1 AS change,
        EXP(differences[place]) - 1 AS low,
        EXP(differences[-place]) - 1 AS high
    FROM compared
),
judged AS (
    SELECT
        *,
        CASE
            WHEN low IS NULL THEN 'no verdict'
            WHEN 1 / 1.01 - 1 <= low AND high <= 0.01 THEN 'no change'
            WHEN change NOT BETWEEN 1 / 1.01 - 1 AND 0.01 AND low > 0 THEN 'slower'
            WHEN change NOT BETWEEN 1 / 1.01 - 1 AND 0.01 AND high < 0 THEN 'faster'
            ELSE 'inconclusive'
        END AS verdict
    FROM estimated
)
SELECT
    pair.model, pair.gpu_name, judged.phase, judged.role,
    pair.base_version AS base_commit,
    pair.new_version AS new_commit,
    judged.base_ns, judged.new_ns,
    judged.new_ns - judged.base_ns AS delta_ns,
    100 * judged.change AS change_pct,
    100 * judged.low AS low_pct,
    100 * judged.high AS high_pct,
    judged.verdict, judged.base_runs, judged.new_runs, judged.setup,
    pair.last_run AS new_run
FROM judged
INNER JOIN pair ON judged.setup = pair.setup AND judged.new_version = pair.new_version
ORDER BY
    list_position(['slower', 'faster', 'inconclusive', 'no verdict', 'no change'], judged.verdict),
    ABS(judged.new_ns - judged.base_ns) DESC,
    judged.setup, judged.new_version, judged.phase, judged.role
LIMIT $limit::INTEGER
