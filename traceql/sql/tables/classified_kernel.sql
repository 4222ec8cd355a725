-- One row per GPU activity: its category, the call that launched it, and the step of that call.
--
-- The table kernel adds layers and roles.
-- @kind   scratch
-- @scope  rank
-- @needs  activity, event_kind, iteration, kernel_class, launch, launch_origin, slice, symbol, trace, untimed_activity
-- @column id         BIGINT     Id of the activity; the same number as slice.id.
-- @column rank       BIGINT     Rank whose GPU ran it.
-- @column device     BIGINT     Number of the device on its machine; -1 if the file has none.
-- @column stream     BIGINT     Number of the stream; -1 if the file has none.
-- @column ts         BIGINT     Start on the GPU, ns since the run's first event; NULL if the recorded time is impossible (recording_span).
-- @column dur        BIGINT     Duration on the GPU, ns; 0 where the file has a negative one, NULL if the recorded time is impossible.
-- @column name       VARCHAR    Name as in the file.
-- @column kind       VARCHAR    kernel, memcpy or memset.
-- @column category   VARCHAR    What it is: gemm, attention, kv_cache, norm, rope, activation, moe, collective, elementwise, sampling, input_prep, memcpy, memset, graph (the replay of a CUDA graph whose kernels were not recorded), or other if no rule matches (see kernel_class).
-- @column symbol     VARCHAR    Letter of its symbol (symbol.letter), which is finer than the category; layers are found in the sequence of these letters.
-- @column step_id    BIGINT     Step in which it was launched, on its device (step.step_id); if its launch call is not in the trace and steps are known from the GPU, the step in which it began. NULL if that was before the first step, or neither its launch call nor the operator that requested it is in the trace.
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
        slice.id, slice.rank,
        COALESCE(activity.device, slice.pid, -1) AS device,
        COALESCE(activity.stream, slice.tid, -1) AS stream,
        slice.ts, GREATEST(slice.dur, 0) AS dur, slice.name, slice.correlation,
        COALESCE(event_kind.kind, 'kernel') AS kind,  -- of JAX, without a category
        activity.bytes,
        activity.grid, activity.block,
        untimed_activity.id IS NULL AS is_timed
    FROM activity
    INNER JOIN slice USING (id)
    LEFT JOIN untimed_activity ON slice.id = untimed_activity.id
    LEFT JOIN event_kind ON slice.rank = event_kind.rank AND slice.cat = event_kind.cat
),
-- The step in which activities without a launch call began, where steps are known from the GPU.
begun AS (
    SELECT begun.id, iteration.step_id
    FROM (
        SELECT slice.id, slice.rank, slice.ts
        FROM activity
        INNER JOIN slice USING (id)
        WHERE slice.rank IN (SELECT rank FROM iteration WHERE gpu_ts IS NOT NULL)
    ) AS begun
    ASOF INNER JOIN (FROM iteration WHERE is_first) AS iteration
        ON begun.rank = iteration.rank AND begun.ts >= iteration.gpu_ts
),
-- The same iteration on each device of its rank.
device_step AS (
    SELECT known.step_id AS known_id, own.device, own.step_id
    FROM iteration AS known
    INNER JOIN iteration AS own USING (rank, number)
),
-- Tasks of a captured graph of an Ascend device (ACL graph) have no launch call of their own. Each
-- replay runs every task of the graph once, so the n-th time of a task is in the n-th replay, and replays
-- begin in the order of their calls. If there are more calls than replays, or fewer, it is unknown which
-- call belongs to which.
ascend_activity AS MATERIALIZED (  -- so that the arguments of other profilers are not read
    SELECT slice.id, slice.rank, slice.ts, slice.args
    FROM slice
    INNER JOIN activity USING (id)
    INNER JOIN trace ON slice.rank = trace.rank
    WHERE trace.dialect = 'ascend'
),
ascend_args AS (
    SELECT
        id, rank, ts,
        json_extract_string(
            args, ['$."Model Id"', '$."Physic Stream Id"', '$."Stream Id"', '$."Task Id"']
        ) AS args
    FROM ascend_activity
    -- The largest number of 32 bits stands for no graph.
    WHERE args LIKE '%"Model Id"%' AND json_extract_string(args, '$."Model Id"') <> '4294967295'
),
-- An operation of communication has no number of a task: it belongs to the replay that began last before it.
ascend_operation AS (
    SELECT id, rank, ts, json_extract_string(args, '$."model id"') AS model
    FROM ascend_activity
    WHERE args LIKE '%"model id"%' AND json_extract_string(args, '$."model id"') <> '4294967295'
),
replayable AS (
    SELECT
        id, rank, ts,
        args[1] AS model,
        ROW_NUMBER() OVER (PARTITION BY rank, args ORDER BY ts, id) AS number
    FROM ascend_args
),
replay AS (
    SELECT
        rank, model, number,
        MIN(ts) AS ts,
        ROW_NUMBER() OVER (PARTITION BY rank ORDER BY MIN(ts)) AS place,
        COUNT(*) OVER (PARTITION BY rank) AS replays
    FROM replayable
    GROUP BY rank, model, number
),
replay_call AS (
    SELECT
        rank, id,
        ROW_NUMBER() OVER (PARTITION BY rank ORDER BY ts, id) AS place,
        COUNT(*) OVER (PARTITION BY rank) AS calls
    FROM launch
    WHERE regexp_matches(name, 'aclmdlRIExecuteAsync')
),
in_replay AS (
    SELECT task.id, replay.rank, replay.place, replay.replays
    FROM replayable AS task
    INNER JOIN replay USING (rank, model, number)
    UNION ALL
    SELECT operation.id, operation.rank, replay.place, replay.replays
    FROM ascend_operation AS operation
    ASOF LEFT JOIN replay
        ON operation.rank = replay.rank AND operation.model = replay.model AND operation.ts >= replay.ts
),
replayed_task AS (
    SELECT in_replay.id, replay_call.id AS launch_id
    FROM in_replay
    LEFT JOIN replay_call
        ON in_replay.rank = replay_call.rank
        AND in_replay.place = replay_call.place
        AND in_replay.replays = replay_call.calls
)
SELECT
    gpu_slice.id, gpu_slice.rank, gpu_slice.device, gpu_slice.stream,
    CASE WHEN gpu_slice.is_timed THEN gpu_slice.ts END AS ts,
    CASE WHEN gpu_slice.is_timed THEN gpu_slice.dur END AS dur,
    gpu_slice.name, gpu_slice.kind,
    CASE gpu_slice.kind WHEN 'kernel' THEN kernel_class.category ELSE gpu_slice.kind END AS category,
    COALESCE(kernel_class.symbol, whole_kind.letter) AS symbol,
    device_step.step_id,
    launch.id AS launch_id,
    replayed_task.id IS NOT NULL OR COALESCE(launch.name LIKE '%GraphLaunch%', FALSE) AS in_graph,
    gpu_slice.bytes, gpu_slice.grid, gpu_slice.block
FROM gpu_slice
LEFT JOIN kernel_class ON gpu_slice.name IS NOT DISTINCT FROM kernel_class.name AND gpu_slice.kind = 'kernel'
-- Copies and memory sets have one symbol each, whatever their name is.
LEFT JOIN symbol AS whole_kind ON gpu_slice.kind = whole_kind.category
LEFT JOIN launching_call USING (rank, correlation)
LEFT JOIN launch_origin ON gpu_slice.id = launch_origin.id
LEFT JOIN begun ON gpu_slice.id = begun.id
LEFT JOIN replayed_task ON gpu_slice.id = replayed_task.id
LEFT JOIN launch ON COALESCE(replayed_task.launch_id, launching_call.id) = launch.id
LEFT JOIN device_step
    ON CASE WHEN launch.id IS NULL THEN COALESCE(launch_origin.step_id, begun.step_id) ELSE launch.step_id END
    = device_step.known_id
    AND gpu_slice.device = device_step.device
