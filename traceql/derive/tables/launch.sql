-- One row per CUDA or HIP runtime or driver call.
--
-- A call belongs to the step that was the latest to begin before it: what follows an annotation
-- (sampling, sends) belongs to its step until the next one begins.
-- @scope  rank
-- @needs  event_kind, iteration, slice
-- @column id           BIGINT   Row of slice.
-- @column rank         BIGINT   Rank that made the call.
-- @column ts           BIGINT   Start of the call, ns since trace.base_time_ns.
-- @column dur          BIGINT   Duration of the call on the host, ns.
-- @column name         VARCHAR  Name of the call.
-- @column tid          BIGINT   Thread that made it.
-- @column correlation  BIGINT   Number that the call shares with what it launched.
-- @column step_id      BIGINT   Step in which it was made; NULL before the first.
WITH call AS (
    SELECT slice.id, slice.rank, slice.ts, slice.dur, slice.name, slice.tid, slice.correlation
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE event_kind.kind = 'launch'
)
SELECT call.*, iteration.step_id
FROM call
ASOF LEFT JOIN iteration ON call.rank = iteration.rank AND call.ts >= iteration.ts
ORDER BY call.id
