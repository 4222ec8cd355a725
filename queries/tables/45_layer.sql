-- The best evidence for each kernel's layer and role: an annotation or a module around its launch,
-- else the node of the CUDA graph that it replays, where the capture wrote down the nodes' modules,
-- else its place in the sequence of its forward pass (kernel_layer).

CREATE OR REPLACE TEMP TABLE module_evidence AS
WITH known AS (
    SELECT
        kernel.id,
        'graph_node' AS kind,
        decoder_layer(graph_node.path) AS layer,
        graph_node.path,
        1 AS position,
        kernel.symbol,
        ROW_NUMBER() OVER (
            PARTITION BY kernel.launch_id, graph_node.path, kernel.symbol
            ORDER BY kernel.ts, kernel.id
        ) AS place
    FROM graph_node
    INNER JOIN activity USING (graph_node_id)
    INNER JOIN kernel ON activity.id = kernel.id AND graph_node.rank = kernel.rank
    WHERE kernel.in_graph
    UNION ALL
    SELECT
        kernel.id,
        module.kind,
        module.layer,
        module.path,
        module.position,
        kernel.symbol,
        ROW_NUMBER() OVER (
            PARTITION BY module.id, kernel.symbol ORDER BY kernel.ts, kernel.id
        ) AS place
    FROM kernel_module
    INNER JOIN kernel USING (id)
    INNER JOIN module ON kernel_module.module_id = module.id
),
path_role AS (
    SELECT path, symbol, position, arg_min(module_role.role, module_role.priority) AS role
    FROM (SELECT DISTINCT path, symbol, LEAST(position, 9) AS position FROM known)
    INNER JOIN module_role
        ON regexp_matches(path, module_role.path_pattern)
        AND regexp_matches(symbol, module_role.symbols)
        AND regexp_matches(CAST(position AS VARCHAR), module_role.positions)
    WHERE NOT of_other_model(path)
    GROUP BY path, symbol, position
)
-- The two norms of a layer, and the two products of its experts, differ by their order alone.
SELECT
    known.id,
    known.kind,
    known.layer,
    CASE
        WHEN regexp_matches(known.path, '(DecoderLayer|TransformerBlock)/\w*RMSNorm$') AND known.position = 1 THEN 'input_norm'
        WHEN regexp_matches(known.path, '(DecoderLayer|TransformerBlock)/\w*RMSNorm$') THEN 'post_attn_norm'
        WHEN known.symbol = 'X' AND known.place = 1 THEN 'experts_gate_up'
        WHEN known.symbol = 'X' THEN 'experts_down'
        ELSE path_role.role
    END AS role
FROM known
LEFT JOIN path_role
    ON known.path = path_role.path AND known.symbol = path_role.symbol
    AND LEAST(known.position, 9) = path_role.position;

-- Kernels of other streams, and of steps that run no layer: what they are tells their role; for small
-- kernels and fills whether they ran before the layers of their step or after them, and for copies
-- meanwhile their direction. Sends and receipts tell theirs, where the file has it.
CREATE OR REPLACE TEMP TABLE other_role AS
WITH span AS (
    SELECT kernel.step_id, MIN(kernel.ts) AS first_ts, MAX(kernel.ts) AS last_ts
    FROM kernel_layer
    INNER JOIN kernel USING (id)
    WHERE kernel_layer.layer IS NOT NULL
    GROUP BY kernel.step_id
),
exchange AS (
    SELECT
        kernel.id,
        lower(CASE
            WHEN slice.args LIKE '%"Collective name"%'
                THEN json_extract_string(slice.args, '$."Collective name"')
        END) AS operation
    FROM kernel
    INNER JOIN slice USING (id)
    WHERE kernel.symbol = 'P'
)
SELECT
    kernel.id,
    CASE
        WHEN kernel.symbol = 'i' THEN 'input_prep'
        WHEN kernel.symbol = 'z' THEN 'sample'
        WHEN exchange.operation LIKE '%send%' AND exchange.operation NOT LIKE '%recv%' THEN 'pp_send'
        WHEN exchange.operation LIKE '%recv%' AND exchange.operation NOT LIKE '%send%' THEN 'pp_recv'
        WHEN kernel.symbol IN ('P', 'B') AND rank_model.stages > 1 THEN
            CASE
                WHEN (rank_model.stage = 0) = (kernel.symbol = 'P') THEN 'pp_send'
                WHEN rank_model.stage = rank_model.stages - 1 OR kernel.symbol = 'B'
                    OR kernel.ts < span.first_ts THEN 'pp_recv'
                ELSE 'pp_send'
            END
        WHEN kernel.symbol IN ('P', 'B') AND rank_model.stages IS NULL THEN 'pp_exchange'
        WHEN kernel.symbol NOT IN ('e', 'E', 'y', 'm') THEN NULL
        WHEN kernel.ts < span.first_ts THEN 'input_prep'
        WHEN kernel.ts > span.last_ts THEN 'sample'
        WHEN span.first_ts IS NOT NULL AND kernel.name LIKE '%HtoD%' THEN 'input_prep'
        WHEN span.first_ts IS NOT NULL AND kernel.name LIKE '%DtoH%' THEN 'sample'
    END AS role
FROM kernel
INNER JOIN rank_model USING (rank)
LEFT JOIN span USING (step_id)
LEFT JOIN exchange USING (id)
LEFT JOIN model_stream USING (rank, device, stream)
WHERE model_stream.stream IS NULL OR kernel.symbol IN ('P', 'B');

CREATE OR REPLACE TABLE kernel AS
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
FROM kernel
LEFT JOIN module_evidence USING (id)
LEFT JOIN kernel_layer USING (id)
LEFT JOIN other_role USING (id)
LEFT JOIN rank_model ON kernel.rank = rank_model.rank;

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
COMMENT ON COLUMN kernel.symbol IS 'Its letter in the layer grammars (queries/layers/symbols.csv).';
COMMENT ON COLUMN kernel.role IS 'Which part of the model asked for it; NULL where not known.';
COMMENT ON COLUMN kernel.step_id IS 'Step in which it was launched; NULL without a launch or before the first step.';
COMMENT ON COLUMN kernel.pass IS 'Forward pass of the rank that it belongs to, from 0; NULL outside layers.';
COMMENT ON COLUMN kernel.layer IS
    'Model layer, from 0; NULL where not known. Of the whole model, but counted on its rank where rank_model.first_layer is NULL.';
COMMENT ON COLUMN kernel.launch_id IS 'Row of launch that launched it; NULL where the trace has none.';
COMMENT ON COLUMN kernel.in_graph IS 'Whether a CUDA or HIP graph launch launched it.';
COMMENT ON COLUMN kernel.bytes IS 'Bytes copied or set; NULL for kernels.';
COMMENT ON COLUMN kernel.grid IS 'Blocks in x, y, z.';
COMMENT ON COLUMN kernel.block IS 'Threads of a block in x, y, z.';
COMMENT ON COLUMN kernel.layer_source IS 'Evidence for them: annotation, module, graph_node or sequence; NULL where neither is known.';

DROP TABLE module_evidence;
DROP TABLE other_role;
DROP TABLE kernel_layer;
DROP TABLE model_stream;
DROP TABLE module_role;
DROP MACRO decoder_layer;
DROP MACRO is_decoder_layer;
DROP MACRO of_other_model;

CREATE OR REPLACE VIEW layer AS
WITH activity AS (
    SELECT
        rank,
        step_id,
        pass,
        layer,
        ts,
        ts + GREATEST(dur, 0) AS end_ts,
        CASE
            WHEN category = 'collective' THEN 1
            WHEN category IN ('memcpy', 'memset') THEN 2
            ELSE 0
        END AS kind
    FROM kernel
    WHERE layer IS NOT NULL
),
-- What each kernel adds to the union of those before it: of all, of computing and communicating
-- ones, and of computing ones alone.
added AS (
    SELECT
        *,
        GREATEST(0, end_ts - GREATEST(ts, COALESCE(MAX(end_ts) OVER before, ts))) AS busy,
        CASE WHEN kind < 2 THEN GREATEST(
            0, end_ts - GREATEST(ts, COALESCE(MAX(end_ts) FILTER (kind < 2) OVER before, ts))
        ) ELSE 0 END AS active,
        CASE WHEN kind = 0 THEN GREATEST(
            0, end_ts - GREATEST(ts, COALESCE(MAX(end_ts) FILTER (kind = 0) OVER before, ts))
        ) ELSE 0 END AS compute
    FROM activity
    WINDOW before AS (
        PARTITION BY rank, step_id, pass, layer ORDER BY ts, end_ts
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT
    rank,
    step_id,
    pass,
    layer,
    MIN(ts) AS ts,
    MAX(end_ts) - MIN(ts) AS dur,
    CAST(SUM(busy) AS BIGINT) AS busy_ns,
    CAST(SUM(compute) AS BIGINT) AS compute_ns,
    CAST(SUM(active) - SUM(compute) AS BIGINT) AS comm_ns,
    MAX(end_ts) - MIN(ts) - CAST(SUM(busy) AS BIGINT) AS idle_ns
FROM added
GROUP BY rank, step_id, pass, layer;

COMMENT ON VIEW layer IS 'One row per rank, forward pass and model layer.';
COMMENT ON COLUMN layer.rank IS 'Rank that ran it.';
COMMENT ON COLUMN layer.step_id IS 'Step in which it was launched.';
COMMENT ON COLUMN layer.pass IS 'Forward pass of the rank, from 0; NULL where modules alone tell the layer.';
COMMENT ON COLUMN layer.layer IS 'Model layer, as in kernel.';
COMMENT ON COLUMN layer.ts IS 'Start of its first kernel, ns since trace.base_time_ns.';
COMMENT ON COLUMN layer.dur IS 'From there to the end of its last kernel, ns.';
COMMENT ON COLUMN layer.busy_ns IS 'Union of its kernels, ns.';
COMMENT ON COLUMN layer.compute_ns IS 'Union of its kernels that neither communicate nor copy, ns.';
COMMENT ON COLUMN layer.comm_ns IS 'Union of its collectives while none of these runs, ns.';
COMMENT ON COLUMN layer.idle_ns IS 'Rest of dur, ns.';
