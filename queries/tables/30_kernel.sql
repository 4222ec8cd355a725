-- GPU activities: what each one is (kernel_class has the rules' answers), which call
-- launched it (same correlation), and through that its step. Layers and roles come later.

CREATE OR REPLACE TABLE kernel AS
WITH
-- A runtime call and the driver call inside it may share a correlation: the outer one counts.
launching_call AS (
    SELECT rank, correlation, MIN(id) AS id
    FROM launch
    WHERE correlation <> 0
    GROUP BY rank, correlation
),
gpu_slice AS (
    SELECT
        slice.id,
        slice.rank,
        COALESCE(activity.device, slice.pid, -1) AS device,
        COALESCE(activity.stream, slice.tid, -1) AS stream,
        slice.ts,
        slice.dur,
        slice.name,
        slice.correlation,
        CASE lower(slice.cat)
            WHEN 'kernel' THEN 'kernel' WHEN 'gpu_memcpy' THEN 'memcpy' ELSE 'memset'
        END AS kind,
        activity.bytes,
        activity.grid,
        activity.block
    FROM activity
    INNER JOIN slice USING (id)
)
SELECT
    gpu_slice.id,
    gpu_slice.rank,
    gpu_slice.device,
    gpu_slice.stream,
    gpu_slice.ts,
    gpu_slice.dur,
    gpu_slice.name,
    gpu_slice.kind,
    CASE gpu_slice.kind WHEN 'kernel' THEN COALESCE(kernel_class.category, 'other') ELSE gpu_slice.kind END AS category,
    CASE gpu_slice.kind
        WHEN 'kernel' THEN COALESCE(kernel_class.symbol, 'o') WHEN 'memcpy' THEN 'y' ELSE 'm'
    END AS symbol,
    launch.step_id,
    launch.id AS launch_id,
    COALESCE(launch.name LIKE '%GraphLaunch%', FALSE) AS in_graph,
    gpu_slice.bytes,
    gpu_slice.grid,
    gpu_slice.block
FROM gpu_slice
LEFT JOIN kernel_class ON gpu_slice.name = kernel_class.name AND gpu_slice.kind = 'kernel'
LEFT JOIN launching_call USING (rank, correlation)
LEFT JOIN launch ON launching_call.id = launch.id;
