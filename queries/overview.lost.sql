-- One row per run: what a step loses, how much of it the diagnosis explains, and what is fine.
--
-- Lost is the time of a device in which no kernel computes or moves data.
-- @column step_ns        DOUBLE     Mean time of a step on a device, ns.
-- @column lost_ns        DOUBLE     What of it is lost, ns.
-- @column explained_pct  DOUBLE     Share of the lost time that confirmed causes explain, percent; NULL if none is lost.
-- @column is_unprofiled  BOOLEAN    Whether both times are those without the profiler; with it if that was not measured.
-- @column reasons        VARCHAR[]  Reasons of the lost time (lost_time.cause) that have 5% of it or more, with their shares: "host 97%".
-- @column fine           VARCHAR[]  What was measured and is good.
-- @key    step_ns lost_ns explained_pct is_unprofiled reasons fine
-- @chart  none
-- @empty  the run has no GPU activity
WITH explained AS (
    SELECT
        SUM(explained_ns) AS ns,
        COALESCE(list(fine ORDER BY position) FILTER (fine IS NOT NULL), []) AS fine
    FROM diagnosis
),
reason AS (
    SELECT cause, 100.0 * SUM(ns) / SUM(SUM(ns)) OVER () AS pct FROM lost_time GROUP BY cause
),
listed AS (
    SELECT COALESCE(list(format('{} {:.0f}%', cause, pct) ORDER BY pct DESC, cause), []) AS reasons FROM reason WHERE pct >= 5
),
lost AS (
    SELECT step_ns, lost_ns * COALESCE(scale, 1) AS ns, scale IS NOT NULL AS is_unprofiled FROM time_scale
)
SELECT
    lost.step_ns,
    lost.ns AS lost_ns,
    LEAST(100, 100 * explained.ns / NULLIF(lost.ns, 0)) AS explained_pct,
    lost.is_unprofiled, listed.reasons, explained.fine
FROM lost
CROSS JOIN explained
CROSS JOIN listed
