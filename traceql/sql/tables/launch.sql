-- One row per CUDA or HIP runtime or driver call on the host, whether it launches something or not.
--
-- A call belongs to the latest step that began before it. So what follows an annotation, such as
-- sampling and sends, belongs to its step until the next step begins.
-- @schema main
-- @scope  rank
-- @needs  event_kind, iteration, slice
-- @column id           BIGINT   Id of the call; the same number as slice.id.
-- @column rank         BIGINT   Rank that made the call.
-- @column ts           BIGINT   Start of the call on the host, ns since the run's first event.
-- @column dur          BIGINT   Duration of the call on the host, ns.
-- @column name         VARCHAR  Name of the call, such as cudaLaunchKernel.
-- @column tid          BIGINT   Id of the thread that made the call.
-- @column correlation  BIGINT   Number that the call shares with the GPU activities that it started.
-- @column step_id      BIGINT   Step in which the call was made; NULL before the first step.
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
