-- One row per grain, stratum, part, role and cause: what the typical units of the stratum spent their GPU spans on.
--
-- The rows of a stratum add up to the GPU spans of those units, to the nanosecond.
-- @kind   result
-- @column grain    VARCHAR  kv or rows (member.grain).
-- @column stratum  VARCHAR  Name of the stratum.
-- @column part     VARCHAR  As in step_time.
-- @column role     VARCHAR  Role; other if unknown, NULL in the parts idle and other_step.
-- @column cause    VARCHAR  Why the devices are idle; NULL in all other parts.
-- @column ns       BIGINT   Time of all typical units, summed over lanes, ns.
SELECT
    member.grain, member.stratum, time_of_unit.part, time_of_unit.role, time_of_unit.cause,
    CAST(SUM(time_of_unit.ns) AS BIGINT) AS ns
FROM member
INNER JOIN time_of_unit USING (unit_id)
WHERE member.is_typical
GROUP BY ALL
ORDER BY ALL
