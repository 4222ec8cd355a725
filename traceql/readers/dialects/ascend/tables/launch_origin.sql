-- One row per activity of an Ascend profile whose operator is known: the thread that requested it, and when.
--
-- torch_npu puts tasks into a queue, and another thread launches them. The operator shows which thread
-- could have been blocked; where the launch call is not recorded (profiler level 0), it has the step
-- and the time too.
-- @scope  rank
-- @needs  activity, event_kind, iteration, slice, trace
-- @empty_unless trace WHERE dialect = 'ascend'
-- @column id        BIGINT  Activity; the same number as slice.id.
-- @column ts        BIGINT  Start of the operator, ns since the run's first event.
-- @column tid       BIGINT  Thread of the operator.
-- @column track_id  BIGINT  Track of that thread (slice.track_id).
-- @column step_id   BIGINT  Step in which the operator began, on the first device of the rank; NULL before the first step.
WITH operator AS (
    SELECT slice.rank, slice.external_id, slice.ts, slice.tid, slice.track_id
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    INNER JOIN trace ON slice.rank = trace.rank
    WHERE
        trace.dialect = 'ascend'
        AND event_kind.kind = 'operator'
        AND slice.external_id IS NOT NULL
)
SELECT task.id, operator.ts, operator.tid, operator.track_id, iteration.step_id
FROM operator
INNER JOIN slice AS task USING (rank, external_id)
INNER JOIN activity ON task.id = activity.id
ASOF LEFT JOIN (FROM iteration WHERE is_first) AS iteration
    ON operator.rank = iteration.rank AND operator.ts >= iteration.ts
