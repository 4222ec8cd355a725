-- One slice per annotation of the host that the profiler also shows on a GPU stream.
SELECT
    slice.rank,
    COALESCE(track.thread_name, 'stream ' || slice.tid, 'annotations') AS track,
    slice.ts,
    GREATEST(slice.dur, 0) AS dur,
    slice.cat, slice.name, slice.id,
    'SELECT * FROM slice WHERE id = ' || slice.id AS sql
FROM slice
LEFT JOIN track ON slice.track_id = track.id
INNER JOIN event_kind ON slice.rank = event_kind.rank AND slice.cat = event_kind.cat
WHERE event_kind.kind = 'gpu_annotation'
ORDER BY slice.rank, 2, slice.ts, 4 DESC, slice.id
