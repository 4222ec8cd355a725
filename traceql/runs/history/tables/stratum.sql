-- One row per stratum of the runs of a series: whether it is compared, and its weight.
--
-- A stratum is compared if every run of the series has it.
-- @column stratum      VARCHAR  As in profile_stratum.
-- @column phase        VARCHAR  Phase of its steps.
-- @column is_compared  BOOLEAN  Whether all runs have it.
-- @column base_steps   BIGINT   Steps in a run: the median, of two in the middle the lower one; the weight of the stratum.
-- @column new_steps    BIGINT   The same; a comparison has another side.
SELECT
    stratum,
    ANY_VALUE(phase) AS phase,
    COUNT(*) = (SELECT COUNT(*) FROM member) AS is_compared,
    quantile_disc(units, 0.5) AS base_steps,
    base_steps AS new_steps
FROM profile_stratum
WHERE grain = (SELECT grain FROM grain) AND phase IN (FROM scope_phase)
GROUP BY stratum
ORDER BY stratum
