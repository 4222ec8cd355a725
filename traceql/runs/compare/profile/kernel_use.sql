-- One row per grain, stratum, role and kernel name: how often a typical unit runs the kernel, and for how long.
-- @kind   result
-- @column grain    VARCHAR  kv or rows (member.grain).
-- @column stratum  VARCHAR  Name of the stratum.
-- @column role     VARCHAR  Role; other if unknown.
-- @column name     VARCHAR  Name of the kernel.
-- @column kernels  DOUBLE   Mean number of launches in a unit, of all lanes.
-- @column ns       DOUBLE   Mean duration of all of them without waiting, summed over lanes, ns.
WITH own AS (
    SELECT
        unit_step.unit_id,
        COALESCE(kernel.role, 'other') AS role,
        kernel.name,
        COUNT(*) AS kernels,
        SUM(kernel.dur - COALESCE(collective.wait_ns, 0)) AS ns
    FROM unit_step
    INNER JOIN kernel USING (step_id)
    LEFT JOIN collective ON kernel.id = collective.kernel_id
    GROUP BY unit_step.unit_id, kernel.role, kernel.name
)
SELECT
    member.grain, member.stratum, own.role, own.name,
    SUM(own.kernels) / ANY_VALUE(stratum.typical) AS kernels,
    SUM(own.ns) / ANY_VALUE(stratum.typical) AS ns
FROM own
INNER JOIN member USING (unit_id)
INNER JOIN stratum ON member.grain = stratum.grain AND member.stratum = stratum.stratum
WHERE member.is_typical
GROUP BY member.grain, member.stratum, own.role, own.name
ORDER BY member.grain, member.stratum, own.role, own.name
