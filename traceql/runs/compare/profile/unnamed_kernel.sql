-- One row per kernel without a role in the most typical unit of each stratum of the grain rows, on its lowest rank, in the order of the streams.
--
-- Such kernels have nothing but their names and their order to be compared by.
-- @kind   result
-- @column stratum   VARCHAR  Name of the stratum.
-- @column position  BIGINT   Place in the order of streams and starts, from 0.
-- @column name      VARCHAR  Name of the kernel.
-- @column ns        BIGINT   Duration, ns.
WITH typical AS (
    SELECT member.stratum, unit_step.step_id
    FROM member
    INNER JOIN unit USING (unit_id)
    INNER JOIN unit_step USING (unit_id)
    WHERE member.grain = 'rows' AND member.is_typical
    QUALIFY
        DENSE_RANK() OVER (PARTITION BY member.stratum ORDER BY unit.gpu_ns, unit.unit_id)
        = (COUNT(DISTINCT member.unit_id) OVER (PARTITION BY member.stratum) + 1) // 2
)
SELECT
    typical.stratum,
    ROW_NUMBER() OVER (PARTITION BY typical.stratum ORDER BY kernel.device, kernel.stream, kernel.ts, kernel.id) - 1 AS position,
    kernel.name,
    kernel.dur AS ns
FROM typical
INNER JOIN kernel USING (step_id)
WHERE COALESCE(kernel.role, 'other') = 'other'
QUALIFY kernel.rank = MIN(kernel.rank) OVER (PARTITION BY typical.stratum)
ORDER BY typical.stratum, position
