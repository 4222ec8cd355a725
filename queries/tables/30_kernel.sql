-- GPU activities: what each one is (kernel_class has the rules' answers), which call
-- launched it (same correlation), and through that its step.

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
    CAST(NULL AS VARCHAR) AS role,
    launch.step_id,
    CAST(NULL AS BIGINT) AS pass,
    CAST(NULL AS BIGINT) AS layer,
    launch.id AS launch_id,
    COALESCE(launch.name LIKE '%GraphLaunch%', FALSE) AS in_graph,
    gpu_slice.bytes,
    gpu_slice.grid,
    gpu_slice.block,
    CAST(NULL AS VARCHAR) AS layer_source
FROM gpu_slice
LEFT JOIN kernel_class ON gpu_slice.name = kernel_class.name AND gpu_slice.kind = 'kernel'
LEFT JOIN launching_call USING (rank, correlation)
LEFT JOIN launch ON launching_call.id = launch.id;

COMMENT ON TABLE kernel IS 'One row per GPU activity: kernel, memory copy or memory set.';
COMMENT ON COLUMN kernel.id IS 'Row of slice.';
COMMENT ON COLUMN kernel.rank IS 'Rank whose GPU ran it.';
COMMENT ON COLUMN kernel.device IS 'Device number on its host; -1 where the file has none.';
COMMENT ON COLUMN kernel.stream IS 'Stream number; -1 where the file has none.';
COMMENT ON COLUMN kernel.ts IS 'Start on the GPU, ns since trace.base_time_ns.';
COMMENT ON COLUMN kernel.dur IS 'Duration on the GPU, ns.';
COMMENT ON COLUMN kernel.name IS 'Name as in the file.';
COMMENT ON COLUMN kernel.kind IS 'kernel, memcpy or memset.';
COMMENT ON COLUMN kernel.category IS
    'What it is: gemm, attention, kv_cache, norm, rope, activation, moe, collective, elementwise, sampling, input_prep, memcpy, memset or other (no rule matches; see kernel_class).';
COMMENT ON COLUMN kernel.role IS 'Which part of the model asked for it; NULL where not known.';
COMMENT ON COLUMN kernel.step_id IS 'Step in which it was launched; NULL without a launch or before the first step.';
COMMENT ON COLUMN kernel.pass IS 'Forward pass of the rank that it belongs to, from 0; NULL outside layers.';
COMMENT ON COLUMN kernel.layer IS 'Model layer, global, from 0; NULL where not known.';
COMMENT ON COLUMN kernel.launch_id IS 'Row of launch that launched it; NULL where the trace has none.';
COMMENT ON COLUMN kernel.in_graph IS 'Whether a CUDA or HIP graph launch launched it.';
COMMENT ON COLUMN kernel.bytes IS 'Bytes copied or set; NULL for kernels.';
COMMENT ON COLUMN kernel.grid IS 'Blocks in x, y, z.';
COMMENT ON COLUMN kernel.block IS 'Threads of a block in x, y, z.';
COMMENT ON COLUMN kernel.layer_source IS 'Evidence for layer and role; NULL where not known.';
