-- One row per profiled point and phase: the size of step that takes most time, which stands for the phase.
--
-- A batch also has steps of other sizes: of its first request alone, while the others are on their way.
-- @column point_id   BIGINT   Point.
-- @column phase      VARCHAR  Phase of the steps.
-- @column stratum    VARCHAR  Phase and size of the steps, as in profile_stratum, grain rows.
-- @column steps      BIGINT   Recorded steps of the size.
-- @column tokens     DOUBLE   Mean number of tokens of such a step; NULL if unknown.
-- @column share_pct  DOUBLE   What they take of the time of all steps of the phase, percent.
SELECT
    point_id, phase, stratum,
    units AS steps,
    tokens,
    100.0 * gpu_ns / NULLIF(SUM(gpu_ns) OVER (PARTITION BY point_id, phase), 0) AS share_pct
FROM profile_stratum
WHERE grain = 'rows'
QUALIFY ROW_NUMBER() OVER (PARTITION BY point_id, phase ORDER BY gpu_ns DESC, stratum) = 1
ORDER BY point_id, phase
