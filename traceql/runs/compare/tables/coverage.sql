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
sized AS (
    SELECT
        whole.*,
        COALESCE(in_strata.compared_ns, 0) AS compared_ns,
        COALESCE(in_strata.unmatched_ns, 0) AS unmatched_ns,
        GREATEST(whole.ns, in_strata.compared_ns + in_strata.unmatched_ns) AS reference_ns
    FROM whole
    LEFT JOIN in_strata USING (side)
)
SELECT
    side, runs,
    ns / runs AS recorded_ns,
    100.0 * compared_ns / reference_ns AS compared_pct,
    100.0 * unmatched_ns / reference_ns AS unmatched_pct,
    100.0 * GREATEST(0, 1 - (compared_ns + unmatched_ns) / reference_ns) AS outside_pct
FROM sized
ORDER BY side
