-- One slice per event of a host thread. Arrows lead from launch calls to the kernels they launched.
WITH launched AS (
    SELECT
        launch_id AS id,
        CASE WHEN MIN(layer) = MAX(layer) AND COUNT(layer) = COUNT(*) THEN MIN(layer) END AS layer,
        CASE WHEN MIN(role) = MAX(role) AND COUNT(role) = COUNT(*) THEN MIN(role) END AS role
    FROM kernel
    WHERE launch_id IS NOT NULL
    GROUP BY launch_id
),
named AS (
    SELECT
        id,
        CASE WHEN rank IS NULL THEN COALESCE(process_name || ' ', '') || COALESCE(pid || ': ', '') ELSE '' END
        || COALESCE(thread_name, 'thread ' || tid, 'no thread') AS name,
        COALESCE(pid, '') || '/' || COALESCE(tid, '') AS number,
        COUNT(*) OVER (PARTITION BY rank, COALESCE(thread_name, 'thread ' || tid, 'no thread')) AS namesakes
    FROM track
)
SELECT
    COALESCE(slice.rank, -2) AS rank,
    CASE WHEN named.namesakes > 1 THEN named.name || ' (' || named.number || ')' ELSE named.name END AS track,
    slice.ts,
    GREATEST(slice.dur, 0) AS dur,
    slice.cat, slice.name,
    launched.id AS flow_out,
    slice.id, launch.step_id, launched.layer, launched.role, slice.external_id, slice.correlation,
    'SELECT * FROM slice WHERE id = ' || slice.id AS sql
FROM slice
LEFT JOIN named ON slice.track_id = named.id
LEFT JOIN launch ON slice.id = launch.id
LEFT JOIN launched ON slice.id = launched.id
LEFT JOIN event_kind ON slice.rank = event_kind.rank AND slice.cat = event_kind.cat
WHERE
    slice.id NOT IN (SELECT id FROM activity)
    AND event_kind.kind IS DISTINCT FROM 'gpu_annotation'
ORDER BY 1, 2, slice.ts, 4 DESC, slice.id
