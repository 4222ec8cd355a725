-- One row per GPU activity: its category, the call that launched it, and the step of that call.
--
-- The table kernel adds layers and roles.
-- @kind   scratch
-- @scope  rank
-- @needs  activity, event_kind, issuer, kernel_class, launch, replayed_task, slice, symbol
-- @column id         BIGINT     Id of the activity; the same number as slice.id.
-- @column rank       BIGINT     Rank whose GPU ran it.
-- @column device     BIGINT     Number of the device on its machine; -1 if the file has none.
-- @column stream     BIGINT     Number of the stream; -1 if the file has none.
-- @column ts         BIGINT     Start on the GPU, ns since the run's first event.
-- @column dur        BIGINT     Duration on the GPU, ns.
-- @column name       VARCHAR    Name as in the file.
-- @column kind       VARCHAR    kernel, memcpy or memset.
-- @column category   VARCHAR    What it is: gemm, attention, kv_cache, norm, rope, activation, moe, collective, elementwise, sampling, input_prep, memcpy, memset, graph (the replay of a CUDA graph whose kernels were not recorded), or other if no rule matches (see kernel_class).
-- @column symbol     VARCHAR    Letter of its symbol (symbol.letter), which is finer than the category; layers are found in the sequence of these letters.
-- @column step_id    BIGINT     Step in which it was launched; NULL if it was launched before the first step, or neither its launch call nor the operator that asked for it is in the trace.
-- @column launch_id  BIGINT     Launch call that started it (launch.id); NULL if it is not in the trace.
-- @column in_graph   BOOLEAN    Whether it ran in the replay of a CUDA, HIP or ACL graph.
-- @column bytes      BIGINT     Bytes copied or set; NULL for kernels.
-- @column grid       INTEGER[]  Blocks in x, y and z.
-- @column block      INTEGER[]  Threads of a block in x, y and z.
WITH
-- A runtime call and the driver call inside it may have the same correlation: the outer one counts.
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
        event_kind.kind,
        activity.bytes,
        activity.grid,
        activity.block
    FROM activity
    INNER JOIN slice USING (id)
    INNER JOIN event_kind ON slice.rank = event_kind.rank AND slice.cat = event_kind.cat
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
    CASE gpu_slice.kind WHEN 'kernel' THEN kernel_class.category ELSE gpu_slice.kind END AS category,
    COALESCE(kernel_class.symbol, whole_kind.letter) AS symbol,
    COALESCE(launch.step_id, issuer.step_id) AS step_id,
    launch.id AS launch_id,
    replayed_task.id IS NOT NULL OR COALESCE(launch.name LIKE '%GraphLaunch%', FALSE) AS in_graph,
    gpu_slice.bytes,
    gpu_slice.grid,
    gpu_slice.block
FROM gpu_slice
LEFT JOIN kernel_class ON gpu_slice.name IS NOT DISTINCT FROM kernel_class.name AND gpu_slice.kind = 'kernel'
-- Copies and memory sets have one symbol each, whatever their name is.
LEFT JOIN symbol AS whole_kind ON gpu_slice.kind = whole_kind.category
LEFT JOIN launching_call USING (rank, correlation)
LEFT JOIN issuer ON gpu_slice.id = issuer.id
LEFT JOIN replayed_task ON gpu_slice.id = replayed_task.id
LEFT JOIN launch ON COALESCE(replayed_task.launch_id, launching_call.id) = launch.id
