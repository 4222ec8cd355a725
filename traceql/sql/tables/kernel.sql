-- One row per GPU activity: a kernel, a memory copy or a memory set.
--
-- Layer and role come from the best evidence. From best to worst, this is an annotation or a module
-- around the launch call (of both, the innermost one), the module of the CUDA graph node that was
-- replayed, if it was recorded, the sequence of kernels of a model whose layers fit a known family,
-- and the repetition of layers alone, if no family is known: then a role follows from the kind of
-- the kernel and its place in the layer, or there is none. Outside layers, the role follows from the
-- symbol of the kernel, the arguments of sends and receives, and the time.
--
-- ts and dur are NULL if the recorded time is impossible, such as 0 beside Unix times (slice.ts has it).
-- @schema main
-- @scope  run
-- @needs  classified_kernel, communication_args, kernel_layer_by_module, kernel_layer_by_order, rank_model, symbol
-- @column id            BIGINT     Id of the activity; the same number as slice.id.
-- @column rank          BIGINT     Rank whose GPU ran it.
-- @column device        BIGINT     Number of the device on its machine; -1 if the file has none.
-- @column stream        BIGINT     Number of the stream; -1 if the file has none.
-- @column ts            BIGINT     Start on the GPU, ns since the run's first event.
-- @column dur           BIGINT     Duration on the GPU, ns; 0 where the file has a negative one, NULL if the recorded time is impossible.
-- @column name          VARCHAR    Name as in the file, but without the numbers of the call that operations of HCCL have behind it (slice.name has them).
-- @column kind          VARCHAR    kernel, memcpy or memset.
-- @column category      VARCHAR    What it is: gemm, attention, kv_cache, norm, rope, activation, moe, collective, elementwise, sampling, input_prep, memcpy, memset, graph (the replay of a CUDA graph whose kernels were not recorded), or other if no rule matches (see kernel_class).
-- @column symbol        VARCHAR    Letter of its symbol (symbol.letter), which is finer than the category; layers are found in the sequence of these letters.
-- @column role          VARCHAR    Part of the model that it belongs to, such as qkv_proj or mlp_allreduce; NULL if unknown.
-- @column step_id       BIGINT     Step in which it was launched, on its device (step.step_id); if its launch call is not in the trace and steps are known from the GPU, the step in which it began. NULL if that was before the first step, or neither its launch call nor the operator that requested it is in the trace.
-- @column pass          BIGINT     Number of the forward pass on its rank, from 0; NULL outside layers.
-- @column layer         BIGINT     Model layer, from 0; NULL if unknown or outside layers. Layers are numbered across all pipeline stages, or on each rank from 0 if rank_model.first_layer is NULL.
-- @column launch_id     BIGINT     Launch call that started it (launch.id); NULL if it is not in the trace.
-- @column in_graph      BOOLEAN    Whether it ran in the replay of a CUDA, HIP or ACL graph.
-- @column bytes         BIGINT     Bytes copied or set; NULL for kernels.
-- @column grid          INTEGER[]  Blocks in x, y and z.
-- @column block         INTEGER[]  Threads of a block in x, y and z.
-- @column layer_source  VARCHAR    Evidence for layer and role: annotation, module, graph_node, sequence (order of kernels; in layers, those of a known family) or repetition (layers of an unknown family); docs/layers.md explains them; NULL if both are unknown.
WITH model_stream AS (
    SELECT DISTINCT rank, device, stream FROM kernel_layer_by_order WHERE confirmed IS NOT NULL
),
-- The layers of a step.
span AS (
    SELECT kernel.step_id, MIN(kernel.ts) AS first_ts, MAX(kernel.ts) AS last_ts
    FROM kernel_layer_by_order
    INNER JOIN classified_kernel AS kernel USING (id)
    WHERE kernel_layer_by_order.layer IS NOT NULL
    GROUP BY kernel.step_id
),
placed AS (
    SELECT
        kernel.*, kernel_layer_by_order.pass,
        kernel_layer_by_order.layer AS sequence_layer,
        kernel_layer_by_order.role AS sequence_role,
        rank_model.family, rank_model.first_layer,
        -- The role of kernels of streams without forward passes, and of the communication between
        -- pipeline stages. Small kernels and fills prepare input if they ran before the layers of their
        -- step, and belong to sampling if they ran after them; for copies in between, the direction decides.
        CASE
            WHEN rank_model.rank IS NULL OR symbol.letter IS NULL THEN NULL
            WHEN
                (model_stream.stream IS NOT NULL OR kernel_layer_by_order.layer IS NOT NULL)
                AND symbol.name NOT IN ('point_to_point', 'communication')
                THEN NULL
            WHEN symbol.role_outside_layers IS NOT NULL THEN symbol.role_outside_layers
            WHEN symbol.name = 'point_to_point' AND described.operation LIKE '%send%' AND described.operation NOT LIKE '%recv%'
                THEN 'pp_send'
            WHEN symbol.name = 'point_to_point' AND described.operation LIKE '%recv%' AND described.operation NOT LIKE '%send%'
                THEN 'pp_recv'
            WHEN symbol.name IN ('point_to_point', 'communication') AND rank_model.stages > 1 AND rank_model.stage IS NOT NULL THEN
                CASE
                    WHEN (rank_model.stage = 0) = (symbol.name = 'point_to_point') THEN 'pp_send'
                    WHEN rank_model.stage = rank_model.stages - 1 OR symbol.name = 'communication'
                        OR kernel.ts < span.first_ts THEN 'pp_recv'
                    ELSE 'pp_send'
                END
            WHEN symbol.name IN ('point_to_point', 'communication') AND COALESCE(rank_model.stages, 2) > 1 THEN 'pp_exchange'
            WHEN NOT list_contains(symbol.traits, 'moves_data') THEN NULL
            WHEN kernel.ts < span.first_ts THEN 'input_prep'
            WHEN kernel.ts > span.last_ts THEN 'sample'
            WHEN span.first_ts IS NOT NULL AND kernel.name LIKE '%HtoD%' THEN 'input_prep'
            WHEN span.first_ts IS NOT NULL AND kernel.name LIKE '%DtoH%' THEN 'sample'
        END AS other_role
    FROM classified_kernel AS kernel
    LEFT JOIN kernel_layer_by_order USING (id)
    LEFT JOIN model_stream
        ON kernel.rank = model_stream.rank
        AND kernel.device = model_stream.device
        AND kernel.stream = model_stream.stream
    LEFT JOIN rank_model ON kernel.rank = rank_model.rank
    LEFT JOIN symbol ON kernel.symbol = symbol.letter
    LEFT JOIN span ON kernel.step_id = span.step_id
    LEFT JOIN communication_args AS described ON kernel.id = described.kernel_id
)
SELECT
    kernel.id, kernel.rank, kernel.device, kernel.stream, kernel.ts, kernel.dur,
    CASE
        WHEN starts_with(kernel.name, 'hcom_')
            THEN regexp_replace(kernel.name, '^(hcom_[A-Za-z]+_)_[0-9_]+$', '\1')
        ELSE kernel.name
    END AS name,
    kernel.kind, kernel.category, kernel.symbol,
    COALESCE(
        kernel_layer_by_module.role,
        kernel.sequence_role,
        CASE WHEN kernel_layer_by_module.layer IS NULL THEN kernel.other_role END
    ) AS role,
    kernel.step_id,
    COALESCE(kernel.pass, kernel_layer_by_module.pass) AS pass,
    COALESCE(kernel_layer_by_module.layer, kernel.sequence_layer)
    + CASE
        WHEN kernel_layer_by_module.layer IS NULL OR kernel_layer_by_module.kind = 'module' THEN COALESCE(kernel.first_layer, 0)
        ELSE 0
    END AS layer,
    kernel.launch_id, kernel.in_graph, kernel.bytes, kernel.grid, kernel.block,
    CASE
        WHEN COALESCE(kernel_layer_by_module.role, CAST(kernel_layer_by_module.layer AS VARCHAR)) IS NOT NULL
            THEN kernel_layer_by_module.kind
        WHEN kernel.sequence_layer IS NOT NULL AND kernel.family IS NULL THEN 'repetition'
        WHEN COALESCE(kernel.sequence_role, kernel.other_role, CAST(kernel.sequence_layer AS VARCHAR)) IS NOT NULL
            THEN 'sequence'
    END AS layer_source
FROM placed AS kernel
LEFT JOIN kernel_layer_by_module USING (id)
ORDER BY kernel.id
