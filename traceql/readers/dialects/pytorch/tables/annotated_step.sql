-- One row per step that an annotation or a frame shows, by the best evidence of its rank.
--
-- Of the engines, the profiler and frames, that which comes first in step_name counts; of one, annotations on the
-- host before those on the GPU. A frame counts if there are several, and it is in none of the same kind.
-- @kind   scratch
-- @scope  rank
-- @needs  event_kind, slice, step_name
-- @column rank     BIGINT   Rank.
-- @column id       BIGINT   Event (slice.id); of annotations on several streams the first one.
-- @column name     VARCHAR  Its name.
-- @column ts       BIGINT   Start on the host, ns since the run's first event; NULL if only the GPU has the annotation.
-- @column dur      BIGINT   Duration on the host, ns; NULL if only the GPU has the annotation.
-- @column track_id  BIGINT  Track of the event (slice.track_id); of an annotation on several streams, that of the one that it begins on.
-- @column gpu_ts   BIGINT   Start of the annotation on the GPU, ns since the run's first event; NULL if the host has it.
-- @column gpu_dur  BIGINT   Its duration, over all streams, ns; NULL if the host has it.
WITH event AS (
    SELECT
        slice.rank, slice.id, slice.name, slice.ts, slice.dur, slice.track_id, NULLIF(slice.external_id, 0) AS own_id,
        step_name.place, step_name.is_frame,
        event_kind.kind = 'gpu_annotation' AS on_gpu
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    INNER JOIN step_name ON slice.name = step_name.name
    WHERE
        slice.rank IS NOT NULL
        AND CASE
            WHEN step_name.is_frame THEN event_kind.kind = 'frame'
            ELSE event_kind.kind IN ('annotation', 'gpu_annotation')
        END
),
chosen AS (
    SELECT *
    FROM event
    QUALIFY
        (place, on_gpu) = MIN((place, on_gpu)) OVER (PARTITION BY rank)
        AND (NOT is_frame OR COALESCE(ts >= MAX(ts + dur) OVER (
            PARTITION BY rank, track_id, place, is_frame ORDER BY ts, dur DESC, id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), TRUE))
),
-- An annotation has a row for each stream with kernels that were launched inside it.
island AS (
    SELECT
        *,
        own_id IS NULL AND COALESCE(ts >= MAX(ts + dur) OVER (
            PARTITION BY rank, name, own_id ORDER BY ts, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), TRUE) AS begins
    FROM chosen
    WHERE on_gpu
),
numbered AS (
    SELECT
        *,
        SUM(begins::INTEGER) OVER (
            PARTITION BY rank, name, own_id ORDER BY ts, id ROWS UNBOUNDED PRECEDING
        ) AS number
    FROM island
)
SELECT rank, id, name, ts, dur, track_id, NULL::BIGINT AS gpu_ts, NULL::BIGINT AS gpu_dur
FROM chosen
WHERE NOT on_gpu
QUALIFY NOT is_frame OR COUNT(*) OVER (PARTITION BY rank) > 1
UNION ALL
SELECT rank, MIN(id), name, NULL, NULL, arg_min(track_id, (ts, id)), MIN(ts), MAX(ts + dur) - MIN(ts)
FROM numbered
GROUP BY rank, name, own_id, number
