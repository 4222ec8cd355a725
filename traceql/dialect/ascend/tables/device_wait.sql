-- One row per time in which a stream of an Ascend device waited for an event of another stream.
--
-- Waits that the profiler itself put there, to capture memory values, are not here.
-- @kind   scratch
-- @scope  rank
-- @needs  event_kind, slice, trace
-- @empty_unless trace WHERE dialect = 'ascend'
-- @column rank    BIGINT  Rank.
-- @column stream  BIGINT  Number of the stream.
-- @column ts      BIGINT  Start, ns since the run's first event.
-- @column end_ts  BIGINT  End, ns since the run's first event.
WITH wait AS MATERIALIZED (  -- so that the arguments of other profilers are not read
    SELECT slice.rank, slice.ts, slice.ts + slice.dur AS end_ts, slice.args
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    INNER JOIN trace ON slice.rank = trace.rank
    WHERE
        trace.dialect = 'ascend'
        AND event_kind.kind = 'other'
        AND slice.name LIKE 'EVENT\_WAIT%' ESCAPE '\'
        AND slice.dur > 0
)
SELECT
    rank,
    COALESCE(
        TRY_CAST(json_extract_string(args, '$."Physic Stream Id"') AS BIGINT),
        TRY_CAST(json_extract_string(args, '$."Stream Id"') AS BIGINT)
    ) AS stream,
    ts,
    end_ts
FROM wait
WHERE args LIKE '%"Task Type"%'
