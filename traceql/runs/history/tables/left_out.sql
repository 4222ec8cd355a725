-- One row per run of a series: how much of the time of its steps is in strata that are not compared.
-- @column run           BIGINT  Number of the run.
-- @column left_out_pct  DOUBLE  Share of the time of its steps, percent.
SELECT
    profile_stratum.run,
    100.0 * COALESCE(SUM(profile_stratum.gpu_ns) FILTER (NOT stratum.is_compared), 0)
    / NULLIF(SUM(profile_stratum.gpu_ns), 0) AS left_out_pct
FROM profile_stratum
INNER JOIN stratum USING (stratum)
WHERE profile_stratum.grain = (SELECT grain FROM grain)
GROUP BY profile_stratum.run
ORDER BY profile_stratum.run
