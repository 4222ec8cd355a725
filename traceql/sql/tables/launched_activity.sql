-- One row per GPU activity with a possible time, of a rank whose steps the host does not show, but annotations of the GPU or layers may.
--
-- Only kernels of inference count as layers: those that write to a KV cache or update a state, or attention
-- with sampling and without a backward pass.
-- @kind   scratch
-- @scope  rank
-- @needs  activity, annotated_step, event_kind, kernel_class, slice, symbol, trace, untimed_activity
-- @empty_unless trace WHERE rank IS NOT NULL AND rank NOT IN (SELECT rank FROM annotated_step WHERE ts IS NOT NULL)
-- @column id         BIGINT   Id of the activity (slice.id).
-- @column rank       BIGINT   Rank whose GPU ran it.
-- @column device     BIGINT   Number of the device on its machine; -1 if the file has none.
-- @column stream     BIGINT   Number of the stream; -1 if the file has none.
-- @column track_id   BIGINT   Track of its stream (slice.track_id).
-- @column ts         BIGINT   Start on the GPU, ns since the run's first event.
-- @column name       VARCHAR  Name as in the file.
-- @column launch_ts  BIGINT   Start of the call that launched it, ns since the run's first event; NULL if the trace does not have it.
-- @column letter     VARCHAR  Letter of its symbol (symbol.letter).
-- @column copy       VARCHAR  Direction of a memory copy: HtoD, DtoH or DtoD; NULL for other copies and kernels.
WITH recorded_symbol AS MATERIALIZED (
    SELECT
        COALESCE(BOOL_OR(list_contains(symbol.traits, 'anchors_layer')), FALSE) AS has_anchors,
        COALESCE(BOOL_OR(symbol.name = 'sampling') AND BOOL_OR(symbol.name = 'attention')
            AND NOT BOOL_OR(symbol.name = 'attention' AND regexp_matches(kernel_class.name, '(?i)bwd|backward|bprop')), FALSE)
            AS has_attention
    FROM kernel_class
    INNER JOIN symbol ON kernel_class.symbol = symbol.letter
),
without_steps AS MATERIALIZED (
    SELECT rank
    FROM trace
    WHERE
        rank IS NOT NULL
        AND rank NOT IN (SELECT rank FROM annotated_step WHERE ts IS NOT NULL)
        AND (
            rank IN (SELECT rank FROM annotated_step)
            OR (SELECT has_anchors OR has_attention FROM recorded_symbol)
        )
),
call AS (
    SELECT slice.rank, slice.correlation, MIN(slice.ts) AS ts
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE event_kind.kind = 'launch' AND slice.correlation <> 0 AND slice.rank IN (FROM without_steps)
    GROUP BY slice.rank, slice.correlation
)
SELECT
    slice.id, slice.rank,
    COALESCE(activity.device, slice.pid, -1) AS device,
    COALESCE(activity.stream, slice.tid, -1) AS stream,
    slice.track_id, slice.ts, slice.name,
    call.ts AS launch_ts,
    COALESCE(kernel_class.symbol, whole_kind.letter) AS letter,
    CASE WHEN event_kind.kind = 'memcpy' THEN NULLIF(regexp_extract(slice.name, 'HtoD|DtoH|DtoD'), '') END AS copy
FROM activity
INNER JOIN slice USING (id)
ANTI JOIN untimed_activity ON slice.id = untimed_activity.id
INNER JOIN event_kind ON slice.rank = event_kind.rank AND slice.cat = event_kind.cat
LEFT JOIN kernel_class ON slice.name IS NOT DISTINCT FROM kernel_class.name AND event_kind.kind = 'kernel'
LEFT JOIN symbol AS whole_kind ON event_kind.kind = whole_kind.category
LEFT JOIN call ON slice.rank = call.rank AND slice.correlation = call.correlation
WHERE slice.rank IN (FROM without_steps)
