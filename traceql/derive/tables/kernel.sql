-- One row per GPU activity: kernel, memory copy or memory set.
--
-- The best evidence for each kernel's layer and role: an annotation or a module around its launch,
-- else the node of the CUDA graph that it replays, if the capture recorded the modules of its
-- nodes, else its place in the sequence of its forward pass.
-- @scope  run
-- @needs  classified_kernel, kernel_layer, module_evidence, other_role, rank_model
-- @column id            BIGINT     Row of slice.
-- @column rank          BIGINT     Rank whose GPU ran it.
-- @column device        BIGINT     Device number on its host; -1 where the file has none.
-- @column stream        BIGINT     Stream number; -1 where the file has none.
-- @column ts            BIGINT     Start on the GPU, ns since trace.base_time_ns.
-- @column dur           BIGINT     Duration on the GPU, ns.
-- @column name          VARCHAR    Name as in the file.
-- @column kind          VARCHAR    kernel, memcpy or memset.
-- @column category      VARCHAR    What it is: gemm, attention, kv_cache, norm, rope, activation, moe, collective, elementwise, sampling, input_prep, memcpy, memset or other (no rule matches; see kernel_class).
-- @column symbol        VARCHAR    Its letter in the layer families; as in symbol.
-- @column role          VARCHAR    Which part of the model asked for it; NULL where not known.
-- @column step_id       BIGINT     Step in which it was launched; NULL without a launch or before the first step.
-- @column pass          BIGINT     Forward pass of the rank that it belongs to, from 0; NULL outside layers.
-- @column layer         BIGINT     Model layer, from 0; NULL where not known. Of the whole model, but counted on its rank where rank_model.first_layer is NULL.
-- @column launch_id     BIGINT     Row of launch that launched it; NULL where the trace has none.
-- @column in_graph      BOOLEAN    Whether a CUDA or HIP graph launch launched it.
-- @column bytes         BIGINT     Bytes copied or set; NULL for kernels.
-- @column grid          INTEGER[]  Blocks in x, y, z.
-- @column block         INTEGER[]  Threads of a block in x, y, z.
-- @column layer_source  VARCHAR    Evidence for them: annotation, module, graph_node or sequence; NULL where neither is known.
SELECT
    kernel.id,
    kernel.rank,
    kernel.device,
    kernel.stream,
    kernel.ts,
    kernel.dur,
    kernel.name,
    kernel.kind,
    kernel.category,
    kernel.symbol,
    COALESCE(
        module_evidence.role,
        kernel_layer.role,
        CASE WHEN module_evidence.layer IS NULL THEN other_role.role END
    ) AS role,
    kernel.step_id,
    kernel_layer.pass,
    COALESCE(module_evidence.layer, kernel_layer.layer)
    + CASE
        WHEN module_evidence.layer IS NULL OR module_evidence.kind = 'module'
            THEN COALESCE(rank_model.first_layer, 0)
        ELSE 0
    END AS layer,
    kernel.launch_id,
    kernel.in_graph,
    kernel.bytes,
    kernel.grid,
    kernel.block,
    CASE
        WHEN COALESCE(module_evidence.role, CAST(module_evidence.layer AS VARCHAR)) IS NOT NULL
            THEN module_evidence.kind
        WHEN COALESCE(kernel_layer.role, other_role.role) IS NOT NULL THEN 'sequence'
    END AS layer_source
FROM classified_kernel AS kernel
LEFT JOIN module_evidence USING (id)
LEFT JOIN kernel_layer USING (id)
LEFT JOIN other_role USING (id)
LEFT JOIN rank_model ON kernel.rank = rank_model.rank
ORDER BY kernel.id
