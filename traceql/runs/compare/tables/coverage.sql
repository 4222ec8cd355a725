-- One row per side: how much of its recorded time is compared.
--
-- Where the GPU spans of steps overlap, the overlap counts for each of them, and the shares are of the
-- sum of the spans.
-- @column side           VARCHAR  base or new.
-- @column runs           BIGINT   Number of runs.
-- @column recorded_ns    DOUBLE   Mean recorded time of a run, all lanes together, ns.
-- @column compared_pct   DOUBLE   Share of it in steps of strata that are compared, percent.
-- @column unmatched_pct  DOUBLE   Share of it in steps that not every run of both sides has, percent.
-- @column outside_pct    DOUBLE   Share of it outside steps, or in incomplete ones, percent.
WITH whole AS (
    SELECT side, COUNT(DISTINCT run) AS runs, SUM(ns) AS ns FROM profile_window_part GROUP BY side
),
in_strata AS (
    SELECT
        profile_stratum.side,
        COALESCE(SUM(profile_stratum.gpu_ns) FILTER (stratum.is_compared), 0) AS compared_ns,
        COALESCE(SUM(profile_stratum.gpu_ns) FILTER (NOT stratum.is_compared), 0) AS unmatched_ns
    FROM profile_stratum
    INNER JOIN stratum USING (stratum)
    WHERE profile_stratum.grain = (SELECT grain FROM grain)
    GROUP BY profile_stratum.side
),
reference AS (
    SELECT
        whole.side,
        GREATEST(whole.ns, COALESCE(in_strata.compared_ns + in_strata.unmatched_ns, 0)) AS ns
    FROM whole
    LEFT JOIN in_strata USING (side)
)
SELECT
    whole.side,
    whole.runs,
    whole.ns / whole.runs AS recorded_ns,
    100.0 * COALESCE(in_strata.compared_ns, 0) / reference.ns AS compared_pct,
    100.0 * COALESCE(in_strata.unmatched_ns, 0) / reference.ns AS unmatched_pct,
    100.0 * GREATEST(0, 1 - COALESCE(in_strata.compared_ns + in_strata.unmatched_ns, 0) / reference.ns) AS outside_pct
FROM whole
LEFT JOIN in_strata USING (side)
INNER JOIN reference USING (side)
ORDER BY whole.side
