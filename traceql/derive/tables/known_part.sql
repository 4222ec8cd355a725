-- One row per rank, layer and role that has kernels: the sizes that its cost follows from.
--
-- Sizes of products come from the shapes of the operators where they were recorded, else from the
-- model's configuration. Layers that are alike have one kind.
-- @kind   scratch
-- @scope  run
-- @needs  configured_shape, engine_dtype, kernel, kv_element_bytes, layout, model_part, model_size, operator_experts, operator_part, operator_product, peak, quantization_sign, rank_model,
-- @needs  symbol, trace
-- @column rank                   BIGINT    Rank.
-- @column layer                  BIGINT    Model layer; NULL outside layers.
-- @column role                   VARCHAR   Part of the model (kernel.role).
-- @column only_communicates      BOOLEAN   Whether its kernels are communication, with copies and elementwise kernels around it at most.
-- @column rows_of                VARCHAR   What it has one row for, as in model_part; NULL if it is not configured.
-- @column gathered_bytes         BIGINT    As in model_part.
-- @column attention_window       BIGINT    As in model_part.
-- @column kv_read_elements       BIGINT    As in model_part.
-- @column kv_written_elements    BIGINT    As in model_part.
-- @column context_pair_flops     BIGINT    As in model_part.
-- @column generation_pair_flops  BIGINT    As in model_part.
-- @column flops_per_row          BIGINT    As in model_part; NULL if unknown.
-- @column weight_bytes           DOUBLE    As in model_part; NULL if unknown.
-- @column tensor_bytes           BIGINT[]  As in model_part; NULL if unknown.
-- @column dtype                  VARCHAR   As in model_part; NULL if unknown.
-- @column formula                VARCHAR   As in model_part; NULL without one.
-- @column source                 VARCHAR   shapes or configuration; NULL if the sizes are unknown.
-- @column missing_sizes          VARCHAR   Why the bytes of its weights are unknown; NULL if they are known.
-- @column experts                BIGINT    As in model_part.
-- @column top_k                  BIGINT    As in model_part.
-- @column kv_element_bytes       BIGINT    Bytes of an element of the rank's KV cache; NULL if unknown.
-- @column l2_bytes               BIGINT    Size of its L2 cache; NULL if unknown.
-- @column hbm_gbps               DOUBLE    Peak of its memory; NULL if unknown.
-- @column tp_size                BIGINT    Its number of tensor-parallel ranks; NULL if unknown.
-- @column dp_size                BIGINT    Its number of replicas; NULL if unknown.
-- @column first_layer            BIGINT    Its first layer; NULL if its pipeline stage is unknown.
-- @column kind_id                BIGINT    Number of its sizes: equal for equal ones of a rank and role.
WITH named AS (
    SELECT DISTINCT rank, layer, role, category, symbol, name
    FROM kernel
    WHERE role IS NOT NULL AND step_id IS NOT NULL
),
called AS (
    SELECT
        named.rank,
        named.layer,
        named.role,
        BOOL_OR(named.category = 'collective')
        AND BOOL_AND(named.category IN ('collective', 'elementwise', 'memcpy', 'memset')) AS only_communicates,
        BOOL_OR(
            symbol.name = 'quantize'
            OR (named.category = 'gemm' AND regexp_matches(named.name, '(?i)fp8|e4m3|e5m2|int8'))
        ) AS has_quantized,
        BOOL_OR(
            named.category IN ('gemm', 'moe')
            AND regexp_matches(named.name, '(?i)marlin|machete|allspark|gptq|awq|wna16|mxfp4|nvfp4')
        ) AS has_packed
    FROM named
    LEFT JOIN symbol ON named.symbol = symbol.letter
    GROUP BY named.rank, named.layer, named.role
),
-- Layers have the numbers of the configuration only if it is known which ones a rank holds. A
-- configuration that recorded shapes contradict is that of another model. Only the first stage looks
-- tokens up: what comes before the layers of the others copies what they received.
configured AS (
    SELECT
        layout.rank,
        model_part.*,
        -- At 2 bytes, a weight has as many bytes as FLOPs per row; quantized, half of them and its scale.
        CASE
            WHEN model_part.dtype IN ('fp8', 'int8') THEN model_part.dtype
            WHEN
                model_part.flops_per_row > 0
                AND model_part.weight_bytes
                < 0.75 * model_part.flops_per_row * COALESCE(model_part.experts / model_part.top_k, 1)
                THEN 'packed'
        END AS narrow_weights
    FROM layout
    INNER JOIN rank_model ON layout.rank = rank_model.rank AND rank_model.first_layer IS NOT NULL
    INNER JOIN model_part ON layout.tp_size = model_part.tp
    LEFT JOIN configured_shape ON layout.rank = configured_shape.rank
    WHERE
        (configured_shape.rank IS NULL OR configured_shape.equal = configured_shape.parts)
        AND (model_part.role != 'embed' OR rank_model.first_layer = 0)
),
-- What the kernels of a rank show of the types of its weights, where the configuration says that they
-- are narrow. Those of attention and of the KV cache have the type of the cache.
shown AS (
    SELECT DISTINCT stated.rank, stated.narrow_weights AS weights
    FROM (
        SELECT DISTINCT rank, narrow_weights FROM configured WHERE narrow_weights IS NOT NULL
    ) AS stated
    INNER JOIN quantization_sign ON stated.narrow_weights = quantization_sign.weights
    INNER JOIN (
        SELECT DISTINCT rank, name
        FROM named
        WHERE category NOT IN ('attention', 'kv_cache') AND role NOT IN ('attention', 'kv_write')
    ) AS weight_kernel
        ON stated.rank = weight_kernel.rank AND regexp_matches(weight_kernel.name, quantization_sign.pattern)
),
kv_width AS (
    SELECT
        trace.rank,
        COALESCE(
            MAX(kv_element_bytes(kernel.name)),
            CASE
                WHEN engine_dtype.kv_cache LIKE 'fp8%' THEN 1
                WHEN engine_dtype.kv_cache = 'auto' THEN model_size.element_bytes
            END
        ) AS element_bytes
    FROM trace
    LEFT JOIN kernel ON trace.rank = kernel.rank AND kernel.role = 'kv_write'
    LEFT JOIN engine_dtype ON TRUE
    LEFT JOIN model_size ON TRUE
    GROUP BY trace.rank, engine_dtype.kv_cache, model_size.element_bytes
),
l2 AS (
    SELECT trace.rank, MAX(peak.l2_bytes) AS bytes, MAX(peak.hbm_gbps) AS hbm_gbps
    FROM trace
    LEFT JOIN peak ON trace.device_name = peak.device_name AND peak.kind = 'data sheet'
    GROUP BY trace.rank
),
-- What shapes tell of roles without products that have shapes.
shaped AS (
    FROM operator_part
    UNION ALL BY NAME
    SELECT *, 'experts' AS formula FROM operator_experts
),
sized AS (
    SELECT
        called.* EXCLUDE (has_quantized, has_packed),
        configured.rows_of,
        COALESCE(configured.gathered_bytes, part.gathered_bytes) AS gathered_bytes,
        CASE WHEN configured.role IS NULL THEN part.attention_window ELSE configured.attention_window END AS attention_window,
        COALESCE(configured.kv_read_elements, part.kv_read_elements) AS kv_read_elements,
        COALESCE(configured.kv_written_elements, part.kv_written_elements) AS kv_written_elements,
        COALESCE(configured.context_pair_flops, part.pair_flops) AS context_pair_flops,
        COALESCE(configured.generation_pair_flops, part.pair_flops) AS generation_pair_flops,
        -- Kernels for narrow numbers where wide ones are configured. At 2 bytes, a weight has as many
        -- bytes as FLOPs per row.
        (called.has_quantized AND configured.dtype IN ('bf16', 'tf32'))
        OR (
            called.has_packed
            AND configured.flops_per_row > 0
            AND configured.weight_bytes >= configured.flops_per_row * COALESCE(configured.experts / configured.top_k, 1)
        ) AS lacks_quantization,
        configured.narrow_weights IS NOT NULL AND shown.rank IS NULL AS lacks_sign,
        COALESCE(
            shape.flops_per_row,
            configured.flops_per_row,
            part.flops_per_row,
            CASE WHEN part.role IS NOT NULL OR called.only_communicates THEN 0 END
        ) AS flops_per_row,
        COALESCE(
            shape.weight_bytes,
            CASE
                WHEN called.only_communicates THEN 0
                WHEN configured.role IS NULL AND part.role IS NOT NULL THEN COALESCE(part.weight_bytes, 0)
                WHEN NOT lacks_quantization AND NOT lacks_sign THEN configured.weight_bytes
            END
        ) AS weight_bytes,
        -- Compiled kernels may read and write less than the eager ones, whose operators have shapes.
        COALESCE(shape.tensor_bytes, part.tensor_bytes, configured.tensor_bytes) AS tensor_bytes,
        COALESCE(
            shape.dtype,
            CASE
                WHEN lacks_quantization OR lacks_sign THEN NULL
                WHEN called.has_packed AND configured.dtype = 'fp8' THEN 'bf16'
                ELSE COALESCE(configured.dtype, part.dtype)
            END
        ) AS dtype,
        CASE WHEN shape.role IS NOT NULL THEN 'product' ELSE COALESCE(configured.formula, part.formula) END AS formula,
        CASE
            WHEN shape.role IS NOT NULL THEN 'shapes'
            WHEN configured.role IS NOT NULL THEN 'configuration'
            WHEN part.role IS NOT NULL THEN 'shapes'
        END AS source,
        CASE
            WHEN configured.missing IS NOT NULL THEN configured.missing
            WHEN lacks_quantization THEN 'quantization, which the model configuration does not state'
            WHEN lacks_sign THEN 'kernels of the quantization that the model configuration states'
        END AS missing_sizes,
        COALESCE(configured.experts, part.experts) AS experts,
        COALESCE(configured.top_k, part.top_k) AS top_k,
        kv_width.element_bytes AS kv_element_bytes,
        l2.bytes AS l2_bytes,
        l2.hbm_gbps,
        layout.tp_size,
        layout.dp_size,
        rank_model.first_layer
    FROM called
    LEFT JOIN configured
        ON called.rank = configured.rank
        AND called.role = configured.role
        AND called.layer IS NOT DISTINCT FROM configured.layer
    LEFT JOIN shown ON configured.rank = shown.rank AND configured.narrow_weights = shown.weights
    LEFT JOIN operator_product AS shape
        ON called.rank = shape.rank
        AND called.role = shape.role
        AND called.layer IS NOT DISTINCT FROM shape.layer
    LEFT JOIN shaped AS part
        ON called.rank = part.rank
        AND called.role = part.role
        AND called.layer IS NOT DISTINCT FROM part.layer
    LEFT JOIN kv_width ON called.rank = kv_width.rank
    LEFT JOIN l2 ON called.rank = l2.rank
    LEFT JOIN layout ON called.rank = layout.rank
    LEFT JOIN rank_model ON called.rank = rank_model.rank
)
SELECT
    sized.* EXCLUDE (lacks_quantization, lacks_sign),
    dense_rank() OVER (
        ORDER BY
            rank, role, only_communicates, rows_of, gathered_bytes, attention_window, kv_read_elements, kv_written_elements,
            context_pair_flops, generation_pair_flops, flops_per_row, weight_bytes, tensor_bytes, dtype, formula, source,
            missing_sizes, experts, top_k
    ) AS kind_id
FROM sized
