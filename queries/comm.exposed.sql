-- One row per role, or per layer and role: communication that computing does not hide.
--
-- exposed counts the time of an operation in which its device computed nothing; of that, wait is
-- for ranks that came later. Operations of two streams at once count both.
-- @param  by          VARCHAR = 'role'  Rows per role, or per layer and role.
-- @values by          role layer
-- @param  rank        BIGINT  = NULL  This rank only; all where NULL.
-- @column layer       BIGINT   Model layer; NULL by role, and outside layers.
-- @column role        VARCHAR  Part of the model that asked for it.
-- @column calls       BIGINT   Operations, counted on each rank.
-- @column dur_ns      BIGINT   Their duration, ns.
-- @column exposed_ns  BIGINT   Of these, nothing was computed meanwhile, ns.
-- @column hidden_ns   BIGINT   The rest, ns.
-- @column wait_ns     BIGINT   Of dur, waiting for the last rank, ns; NULL where not matched.
-- @column exposed_pct DOUBLE   exposed in percent of dur.
-- @chart  stacked x=exposed_ns,hidden_ns y=role
-- @title  Communication that computing hides, and that it does not
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
