-- Tensor parallelism spends a large part of the steps on transfers.
-- @title      TP efficiency
-- @notable    25
-- @severe     50
-- @unit       % of steps lost
-- @evidence   comm.summary phase=phase
-- @advice     Use fewer tensor-parallel ranks, or data parallelism, if the model fits into memory.
-- @source     rule of thumb: a scaling efficiency above 75% is good, below 50% is poor
-- @needs      kernel, layout, rank_model, step, within_stage
WITH moved AS (
    SELECT kernel.step_id, SUM(within_stage.exposed_ns) AS transfer_ns
    FROM within_stage
    INNER JOIN kernel ON within_stage.kernel_id = kernel.id
    GROUP BY kernel.step_id
),
tensor AS (
    SELECT
        step.phase,
        ANY_VALUE(layout.tp_size) AS tp_size,
        SUM(moved.transfer_ns) AS transfer_ns,
        SUM(step.gpu_dur) AS step_ns
    FROM step
    INNER JOIN layout USING (rank)
    LEFT JOIN moved USING (step_id)
    -- If no model is recognized, it is unknown which parallelism a communicator serves.
    WHERE layout.tp_size > 1 AND step.gpu_dur > 0 AND step.rank IN (SELECT rank FROM rank_model)
    GROUP BY step.phase
)
SELECT
    100.0 * transfer_ns / step_ns AS value,
    transfer_ns AS cost_ns,
    format(
        'Tensor parallelism across {} ranks spends {:.0f}% of {} steps on transfers: at most {:.0f}% of the time is model work.',
        tp_size, 100.0 * transfer_ns / step_ns, COALESCE(phase, 'all'),
        100.0 - 100.0 * transfer_ns / step_ns
    ) AS finding,
    phase
FROM tensor
