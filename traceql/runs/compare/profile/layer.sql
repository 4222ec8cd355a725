-- One row per grain, stratum, layer and role: the mean time of its kernels in a typical unit of the stratum, without waiting.
-- @kind   result
-- @column grain    VARCHAR  kv or rows (member.grain).
-- @column stratum  VARCHAR  Name of the stratum.
-- @column layer    BIGINT   Model layer.
-- @column role     VARCHAR  Role; other if unknown.
-- @column ns       DOUBLE   Time of a unit, summed over lanes, ns.
SELECT
    member.grain, member.stratum, time_of_unit.layer, time_of_unit.role,
    SUM(time_of_unit.ns) / ANY_VALUE(stratum.typical) AS ns
FROM time_of_unit
INNER JOIN member USING (unit_id)
INNER JOIN stratum ON member.grain = stratum.grain AND member.stratum = stratum.stratum
WHERE member.is_typical AND time_of_unit.layer IS NOT NULL AND time_of_unit.part <> 'exposed_wait'
GROUP BY member.grain, member.stratum, time_of_unit.layer, time_of_unit.role
ORDER BY member.grain, member.stratum, time_of_unit.layer, time_of_unit.role
