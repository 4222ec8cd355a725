-- One row per role, or per layer and role: exposed communication.
--
-- Exposed communication is time in collectives while no compute kernel runs on the same device. The
-- rest is overlapped (column hidden_ns) and costs little. Use it to see which collectives are
-- worth overlapping. If operations run on two streams at once, the time counts for both.
-- @param  by          VARCHAR = 'role'  One row per role, or per layer and role.
-- @values by          role layer
-- @param  rank        BIGINT  = NULL  Only this rank; all ranks by default.
-- @column layer       BIGINT   Model layer; NULL if by is role, and outside layers.
-- @column role        VARCHAR  Part of the model that asked for the operation.
-- @column calls       BIGINT   Operations, counted on each rank.
-- @column dur_ns      BIGINT   Total duration of the operations, ns.
-- @column exposed_ns  BIGINT   Part of dur_ns in which no compute kernel ran, ns.
-- @column hidden_ns   BIGINT   Part of dur_ns that compute kernels overlapped, ns.
-- @column wait_ns     BIGINT   Part of dur_ns spent waiting for the late rank, ns; NULL if not matched.
-- @column exposed_pct DOUBLE   exposed_ns in percent of dur_ns.
-- @empty  there are no collectives in the trace
-- @chart  stacked x=exposed_ns,hidden_ns y=role
-- @title  Exposed and overlapped communication
SELECT
    CASE WHEN $by::VARCHAR = 'layer' THEN kernel.layer END AS layer,
    kernel.role,
    COUNT(*) AS calls,
    CAST(SUM(kernel.dur) AS BIGINT) AS dur_ns,
    CAST(SUM(kernel.dur - hidden_operation.hidden_ns) AS BIGINT) AS exposed_ns,
    CAST(SUM(hidden_operation.hidden_ns) AS BIGINT) AS hidden_ns,
    CAST(SUM(collective.wait_ns) AS BIGINT) AS wait_ns,
    100.0 * SUM(kernel.dur - hidden_operation.hidden_ns) / NULLIF(SUM(kernel.dur), 0) AS exposed_pct
FROM kernel
INNER JOIN collective ON kernel.id = collective.kernel_id
INNER JOIN hidden_operation ON kernel.id = hidden_operation.kernel_id
WHERE $rank::BIGINT IS NULL OR kernel.rank = $rank::BIGINT
GROUP BY ALL
ORDER BY exposed_ns DESC, layer, kernel.role
