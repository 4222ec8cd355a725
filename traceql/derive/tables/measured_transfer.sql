-- One row per rank, step, layer and role all of whose operations were measured at their size: how long they take.
--
-- Small operations take longer than their bytes do at the peak of the link.
-- @scope  run
-- @needs  collective, kernel, measured_operation, trace, transfer_curve
-- @empty_unless transfer_curve WHERE source = 'measured'
-- @column rank     BIGINT   Rank.
-- @column step_id  BIGINT   Step (step.step_id); NULL outside steps.
-- @column layer    BIGINT   Model layer; NULL outside layers.
-- @column role     VARCHAR  Part of the model; NULL if unknown.
-- @column ns       DOUBLE   Sum of the measured durations (measured_operation.ns), ns.
SELECT
    kernel.rank,
    kernel.step_id,
    kernel.layer,
    kernel.role,
    CAST(SUM(measured_operation.ns ORDER BY measured_operation.ns) AS DOUBLE) AS ns
FROM collective
INNER JOIN kernel ON collective.kernel_id = kernel.id
INNER JOIN trace ON collective.rank = trace.rank
LEFT JOIN measured_operation
    ON trace.device_name = measured_operation.device_name
    AND collective.op = measured_operation.op
    AND collective.group_size = measured_operation.ranks
    AND collective.bytes = measured_operation.bytes
WHERE trace.device_name IN (SELECT device_name FROM transfer_curve WHERE source = 'measured')
GROUP BY kernel.rank, kernel.step_id, kernel.layer, kernel.role
HAVING COUNT(measured_operation.ns) = COUNT(*)
ORDER BY kernel.rank, kernel.step_id, kernel.layer, kernel.role
