-- One row per host, GPU, run or model, by waiting: how much of its GPUs' time went into waiting, and how much waiting it caused.
--
-- Use it to find the hosts that others wait for: caused_wait is the wait time of other ranks, in the
-- operations for which a rank of this row was the late one, also where a compute kernel hid it.
-- idle_host is time in which a GPU was idle because its host had launched nothing.
-- @param  limit           INTEGER = 20      Maximum number of rows.
-- @param  by              VARCHAR = 'host'  What a row is.
-- @values by              host gpu run model
-- @column name            VARCHAR  The host, GPU, run or model; unknown if the runs do not have it.
-- @column runs            BIGINT   Runs.
-- @column ranks           BIGINT   Ranks in them.
-- @column window_ns       BIGINT   GPU spans of these ranks, ns.
-- @column wait_pct        DOUBLE   Part of them in which collectives only waited for a late rank, percent.
-- @column caused_pct      DOUBLE   Wait time that its ranks caused, percent of window_ns.
-- @column idle_host_pct   DOUBLE   Part of them in which a GPU waited for its host, percent.
-- @column wait_ns         BIGINT   Time in which collectives only waited, ns.
-- @column caused_wait_ns  BIGINT   Wait time of other ranks that its ranks caused, ns.
-- @column idle_host_ns    BIGINT   Time in which a GPU waited for its host, ns.
-- @column unmatched_pct   DOUBLE   Part in operations that were not matched, so that waiting is unknown, percent.
-- @column run             VARCHAR  Run that caused most waiting.
-- @key    name runs ranks window_ns wait_pct caused_pct idle_host_pct run
-- @empty  the lake has no run with GPU activity
-- @chart  bar x=wait_pct,caused_pct,idle_host_pct y=name
-- @title  Waiting for late ranks and for hosts
WITH named AS (
    SELECT
        rank_summary.*,
        COALESCE(
            CASE $by::VARCHAR
                WHEN 'host' THEN rank_summary.host
                WHEN 'gpu' THEN rank_summary.gpu
                WHEN 'run' THEN rank_summary.run
                ELSE COALESCE(lake_run.model, format('{}, {} layers', lake_run.family, lake_run.layers), lake_run.family)
            END,
            'unknown'
        ) AS name
    FROM rank_summary
    INNER JOIN lake_run USING (run)
),
summed AS (
    SELECT
        name,
        COUNT(DISTINCT run) AS runs,
        COUNT(*) AS ranks,
        SUM(window_ns) AS window_ns,
        SUM(exposed_wait_ns) AS wait_ns,
        SUM(caused_wait_ns) AS caused_wait_ns,
        SUM(idle_host_ns) AS idle_host_ns,
        SUM(exposed_unmatched_ns) AS unmatched_ns,
        arg_max(run, [caused_wait_ns, exposed_wait_ns, hash(run)]) AS run
    FROM named
    GROUP BY name
    HAVING SUM(window_ns) > 0
)
SELECT
    name, runs, ranks,
    CAST(window_ns AS BIGINT) AS window_ns,
    100.0 * wait_ns / window_ns AS wait_pct,
    100.0 * caused_wait_ns / window_ns AS caused_pct,
    100.0 * idle_host_ns / window_ns AS idle_host_pct,
    CAST(wait_ns AS BIGINT) AS wait_ns,
    CAST(caused_wait_ns AS BIGINT) AS caused_wait_ns,
    CAST(idle_host_ns AS BIGINT) AS idle_host_ns,
    100.0 * unmatched_ns / window_ns AS unmatched_pct,
    run
FROM summed
ORDER BY caused_wait_ns + wait_ns DESC, name
LIMIT $limit::INTEGER
