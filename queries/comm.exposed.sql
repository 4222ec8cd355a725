-- One row per role, or per layer or phase and role: exposed communication, and how much of it is waiting.
--
-- Exposed communication is time in collectives while no compute kernel runs on the same device. It
-- is either transfer, which overlapping it with compute would hide, or waiting for a late rank, which
-- only helping that rank would shorten. The rest is hidden and costs little. Durations are summed
-- across ranks. If operations run on two streams at once, the time counts for both.
-- @param  by                   VARCHAR = 'role'  One row per role, per layer and role, or per phase and role.
-- @values by                   role layer phase
-- @param  rank                 BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase                VARCHAR = NULL  Only steps of this phase; all by default.
-- @values phase                prefill decode mixed idle
-- @column phase                VARCHAR  Phase of the step; NULL unless by is phase.
-- @column layer                BIGINT   Model layer; NULL unless by is layer, and outside layers.
-- @column role                 VARCHAR  Part of the model that the operation belongs to.
-- @column calls                BIGINT   Operations, counted on each rank.
-- @column dur_ns               BIGINT   Total duration of the operations, ns.
-- @column exposed_ns           BIGINT   Part of dur_ns in which no compute kernel ran, ns.
-- @column exposed_transfer_ns  BIGINT   Part of exposed_ns in which operations transferred data, ns; NULL if none was matched on all its ranks.
-- @column exposed_wait_ns      BIGINT   Part of exposed_ns in which operations waited for a late rank, ns; NULL if none was matched on all its ranks.
-- @column exposed_unmatched_ns BIGINT   Part of exposed_ns in operations that were not matched, so that waiting is unknown, ns; NULL if there are none.
-- @column hidden_ns            BIGINT   Part of dur_ns that compute kernels overlapped, ns.
-- @column exposed_pct          DOUBLE   exposed_ns in percent of dur_ns.
-- @key    phase layer role exposed_transfer_ns exposed_wait_ns exposed_unmatched_ns hidden_ns exposed_ns dur_ns
-- @empty  there are no collectives in the trace
-- @chart  stacked x=exposed_transfer_ns,exposed_wait_ns,exposed_unmatched_ns,hidden_ns y=role
-- @title  Exposed communication: transfer against waiting
SELECT
    CASE WHEN $by::VARCHAR = 'phase' THEN step.phase END AS phase,
    CASE WHEN $by::VARCHAR = 'layer' THEN kernel.layer END AS layer,
    kernel.role,
    COUNT(*) AS calls,
    CAST(SUM(kernel.dur) AS BIGINT) AS dur_ns,
    CAST(SUM(operation.exposed_ns) AS BIGINT) AS exposed_ns,
    CAST(SUM(operation.exposed_transfer_ns) AS BIGINT) AS exposed_transfer_ns,
    CAST(SUM(operation.exposed_wait_ns) AS BIGINT) AS exposed_wait_ns,
    CAST(SUM(operation.exposed_ns) FILTER (operation.exposed_wait_ns IS NULL) AS BIGINT) AS exposed_unmatched_ns,
    CAST(SUM(operation.hidden_ns) AS BIGINT) AS hidden_ns,
    100.0 * SUM(operation.exposed_ns) / NULLIF(SUM(kernel.dur), 0) AS exposed_pct
FROM kernel
INNER JOIN collective_exposure AS operation ON kernel.id = operation.kernel_id
INNER JOIN collective ON kernel.id = collective.kernel_id
LEFT JOIN step USING (step_id)
WHERE
    ($rank::BIGINT IS NULL OR kernel.rank = $rank::BIGINT)
    AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
GROUP BY ALL
ORDER BY exposed_ns DESC, phase, layer, kernel.role
