-- One row per step, role and kind of layer, which is all layers of a rank with the same sizes: what the kernels in one of them had to do at least.
--
-- Sizes of products come from the shapes of the operators where they were recorded, else from the
-- model's configuration. What is unknown is NULL, and column missing has the reason.
-- @kind   scratch
-- @scope  run
-- @needs  cost_formula, kernel, layout, model_config, model_part, model_size, operator_size, peak, quantization_pattern,
-- @needs  rank_model, run_file, step_tokens, symbol, trace
-- @empty_unless kernel
-- @column step_id             BIGINT    Step (step.step_id).
-- @column rank                BIGINT    Rank.
-- @column role                VARCHAR   Part of the model (kernel.role).
-- @column layers              BIGINT[]  The layers that are alike; -1 stands for kernels outside layers.
-- @column calls               BIGINT    How many of them have kernels in the step.
-- @column only_communicates   BOOLEAN   Whether its kernels are communication, with copies and elementwise kernels around it at most.
-- @column flops               BIGINT    As in cost.
-- @column executed_flops      BIGINT    As in cost.
-- @column weight_bytes        BIGINT    As in cost.
-- @column kv_bytes            BIGINT    As in cost.
-- @column activation_bytes    BIGINT    As in cost.
-- @column hbm_bytes           BIGINT    As in cost.
-- @column executed_hbm_bytes  BIGINT    As in cost.
-- @column dtype               VARCHAR   As in cost.
-- @column formula             VARCHAR   Formula (cost_formula.formula); NULL if there is none for this role.
-- @column source              VARCHAR   shapes or configuration; NULL if the sizes are unknown.
-- @column missing             VARCHAR   What is missing for flops and hbm_bytes; NULL if nothing is.
WITH named AS (
    SELECT DISTINCT rank, layer, role, category, symbol, name
    FROM kernel
    WHERE role IS NOT NULL AND step_id IS NOT NULL
),
called AS (
    SELECT
        named.rank, named.layer, named.role,
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
-- Products whose recorded shapes are those of the configuration.
configured_shape AS (
    SELECT
        shape.rank,
        COUNT(*) AS parts,
        COUNT(*) FILTER (shape.flops_per_row = model_part.flops_per_row) AS equal
    FROM operator_size AS shape
    INNER JOIN layout ON shape.rank = layout.rank
    INNER JOIN rank_model ON shape.rank = rank_model.rank AND rank_model.first_layer IS NOT NULL
    INNER JOIN model_part
        ON layout.tp_size = model_part.tp
        AND shape.role = model_part.role
        AND shape.layer IS NOT DISTINCT FROM model_part.layer
    WHERE shape.formula = 'product' AND model_part.formula = 'product'
    GROUP BY shape.rank
),
-- Layers have the numbers of the configuration only if it is known which ones a rank holds. A
-- configuration that recorded shapes contradict is that of another model. Only the first stage looks
-- tokens up: what comes before the layers of the others copies what they received.
configured AS (
    SELECT
        layout.rank, model_part.*,
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
-- What the kernels of a rank show of the types of its weights, where the configuration states that they
-- are narrow. Those of attention and of the KV cache have the type of the cache.
shown AS (
    SELECT DISTINCT stated.rank, stated.narrow_weights AS weights
    FROM (
        SELECT DISTINCT rank, narrow_weights FROM configured WHERE narrow_weights IS NOT NULL
    ) AS stated
    INNER JOIN quantization_pattern ON stated.narrow_weights = quantization_pattern.weights
    INNER JOIN (
        SELECT DISTINCT rank, name
        FROM named
        WHERE category NOT IN ('attention', 'kv_cache') AND role NOT IN ('attention', 'kv_write')
    ) AS weight_kernel
        ON stated.rank = weight_kernel.rank AND regexp_matches(weight_kernel.name, quantization_pattern.pattern)
),
-- The type of the KV cache given to vLLM; auto is that of the activations.
engine AS (
    SELECT
        COALESCE(
            document ->> '$.engine_config.cache_config.cache_dtype', document ->> '$.engine_arguments.kv_cache_dtype', 'auto'
        ) AS kv_cache
    FROM run_file
    ORDER BY path
    LIMIT 1
),
kv_width AS (
    SELECT
        trace.rank,
        COALESCE(
            -- The type of the elements is the second template argument of a kernel that writes them.
            MAX(CASE
                WHEN regexp_matches(kernel.name, 'cache\w*_kernel<[^,<>]+, (unsigned char|uint8_t|signed char|__nv_fp8\w*|c10::Float8\w*)\b')
                    THEN 1
                WHEN
                    regexp_matches(
                        kernel.name,
                        'cache\w*_kernel<[^,<>]+, (__nv_bfloat16|__hip_bfloat16|unsigned short|uint16_t|__half|_Float16|c10::\w+|at::\w+)\b'
                    )
                    THEN 2
                WHEN regexp_matches(kernel.name, 'cache\w*_kernel<[^,<>]+, float\b') THEN 4
            END),
            CASE
                WHEN engine.kv_cache LIKE 'fp8%' THEN 1
                WHEN engine.kv_cache = 'auto' THEN model_size.element_bytes
            END
        ) AS element_bytes
    FROM trace
    LEFT JOIN kernel ON trace.rank = kernel.rank AND kernel.role = 'kv_write'
    LEFT JOIN engine ON TRUE
    LEFT JOIN model_size ON TRUE
    WHERE trace.rank IS NOT NULL
    GROUP BY trace.rank, engine.kv_cache, model_size.element_bytes
),
l2 AS (
    SELECT trace.rank, MAX(peak.l2_bytes) AS bytes, MAX(peak.hbm_gbps) AS hbm_gbps
    FROM trace
    LEFT JOIN peak ON trace.device_name = peak.device_name AND peak.kind = 'data sheet'
    GROUP BY trace.rank
),
part AS (
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
        l2.hbm_gbps, layout.tp_size, layout.dp_size, rank_model.first_layer
    FROM called
    LEFT JOIN configured
        ON called.rank = configured.rank
        AND called.role = configured.role
        AND called.layer IS NOT DISTINCT FROM configured.layer
    LEFT JOIN shown ON configured.rank = shown.rank AND configured.narrow_weights = shown.weights
    LEFT JOIN operator_size AS shape
        ON called.rank = shape.rank
        AND called.role = shape.role
        AND called.layer IS NOT DISTINCT FROM shape.layer
        AND shape.formula = 'product'
    LEFT JOIN operator_size AS part
        ON called.rank = part.rank
        AND called.role = part.role
        AND called.layer IS NOT DISTINCT FROM part.layer
        AND part.formula != 'product'
    LEFT JOIN kv_width ON called.rank = kv_width.rank
    LEFT JOIN l2 ON called.rank = l2.rank
    LEFT JOIN layout ON called.rank = layout.rank
    LEFT JOIN rank_model ON called.rank = rank_model.rank
),
kind AS (
    SELECT
        * EXCLUDE (layer, lacks_quantization, lacks_sign),
        list(COALESCE(layer, -1) ORDER BY layer) AS layers,
        row_number() OVER () AS kind_id
    FROM part
    GROUP BY ALL
),
placed AS (SELECT kind_id, rank, role, UNNEST(layers) AS layer FROM kind),
stepped AS (
    SELECT kernel.step_id, placed.kind_id, SUM(kernel.dur) AS dur_ns, COUNT(DISTINCT placed.layer) AS calls
    FROM kernel
    INNER JOIN placed
        ON kernel.rank = placed.rank
        AND kernel.role = placed.role
        AND COALESCE(kernel.layer, -1) = placed.layer
    WHERE kernel.step_id IS NOT NULL
    GROUP BY kernel.step_id, placed.kind_id
),
sized AS (
    SELECT
        stepped.*,
        kind.* EXCLUDE (kind_id),
        CASE WHEN kind.rows_of = 'logit_rows' OR kind.role = 'lm_head' THEN step_tokens.logit_rows ELSE step_tokens.tokens END
            AS useful_rows,
        CASE
            WHEN kind.rows_of = 'logit_rows' OR kind.role = 'lm_head' THEN step_tokens.logit_rows
            ELSE COALESCE(step_tokens.executed_tokens, step_tokens.tokens)
        END AS executed_rows,
        step_tokens.context_pairs, step_tokens.generation_pairs,
        step_tokens.context_kv_tokens + step_tokens.generation_kv_tokens AS kv_tokens
    FROM stepped
    INNER JOIN kind USING (kind_id)
    LEFT JOIN step_tokens ON stepped.step_id = step_tokens.step_id
),
-- A token of another replica may choose an expert of this rank; their number may be unknown.
counted AS (
    SELECT
        *,
        COALESCE(context_pair_flops + generation_pair_flops, 0) > 0 AS attends,
        experts IS NOT NULL AND COALESCE(dp_size, 0) != 1 AS shares_experts,
        CASE WHEN experts IS NULL THEN 1.0 ELSE 1 - pow(1 - top_k / experts, useful_rows) END AS touched,
        CASE WHEN experts IS NULL THEN 1.0 ELSE 1 - pow(1 - top_k / experts, executed_rows) END AS executed_touched,
        calls * weight_bytes AS all_weight_bytes,
        calls * weight_bytes / hbm_gbps AS weight_ns
    FROM sized
),
-- Experts that took less time than the expected number of them needs: the tokens prefer some.
uneven AS (
    SELECT DISTINCT rank
    FROM (
        SELECT rank
        FROM (SELECT *, weight_ns * touched AS touched_ns FROM counted WHERE experts IS NOT NULL)
        GROUP BY rank, role, useful_rows
        HAVING SUM(dur_ns) < SUM(touched_ns ORDER BY touched_ns)
    )
),
-- A configuration whose weights the memory cannot read in the time that their products took is that of
-- another model, or of other numbers; unless all of them fit the cache.
contradicted AS (
    SELECT DISTINCT rank
    FROM (
        SELECT rank
        FROM counted
        WHERE formula = 'product' AND source = 'configuration'
        GROUP BY rank, role, useful_rows
        HAVING
            SUM(dur_ns) < 0.95 * SUM(weight_ns ORDER BY weight_ns)
            AND SUM(all_weight_bytes ORDER BY all_weight_bytes) / COUNT(DISTINCT step_id) > 2 * ANY_VALUE(l2_bytes)
    )
),
with_missing AS (
    SELECT
        *,
        CASE
            WHEN flops_per_row IS NULL AND role NOT IN (SELECT UNNEST(roles) FROM cost_formula)
                THEN 'a formula for this role'
            WHEN flops_per_row IS NULL AND role = 'embed' AND first_layer > 0 THEN 'a formula for this role in a later pipeline stage'
            WHEN flops_per_row IS NULL AND NOT EXISTS (SELECT 1 FROM model_config) THEN 'model configuration'
            WHEN flops_per_row IS NULL AND rank IN (SELECT rank FROM configured_shape WHERE equal < parts)
                THEN 'a model configuration that the recorded shapes do not contradict'
            WHEN flops_per_row IS NULL
                THEN COALESCE(
                    (SELECT MAX(missing) FROM model_size),
                    CASE WHEN tp_size IS NULL THEN 'number of tensor-parallel ranks' END,
                    CASE WHEN first_layer IS NULL THEN 'pipeline stage of the rank' END,
                    'this part of this layer in the model configuration'
                )
            WHEN source = 'configuration' AND rank IN (SELECT rank FROM contradicted)
                THEN 'a model configuration whose weights can be read in the time of the kernels'
            WHEN useful_rows IS NULL THEN 'tokens of the step'
            WHEN shares_experts THEN 'tokens of the other replicas'
            WHEN experts IS NOT NULL AND rank IN (SELECT rank FROM uneven) THEN 'experts that the tokens chose: fewer than equally likely ones'
            WHEN attends AND kv_tokens IS NULL THEN 'KV lengths'
            WHEN attends AND kv_tokens > attention_window THEN 'KV lengths within the attention window'
            WHEN kv_read_elements + kv_written_elements > 0 AND kv_element_bytes IS NULL THEN 'type of the KV cache'
            WHEN weight_bytes IS NULL THEN missing_sizes
        END AS missing
    FROM counted
),
work AS (
    SELECT
        *,
        missing IS NULL OR missing = missing_sizes OR missing LIKE 'experts that%' AS has_flops,
        context_pair_flops * context_pairs + generation_pair_flops * generation_pairs AS pair_flops,
        CASE WHEN has_flops THEN CASE WHEN attends THEN pair_flops ELSE flops_per_row * useful_rows END END AS flops,
        CASE WHEN has_flops THEN CASE WHEN attends THEN pair_flops ELSE flops_per_row * executed_rows END END
            AS executed_flops,
        CASE WHEN missing IS NULL THEN weight_bytes * touched + COALESCE(gathered_bytes, 0) * useful_rows END AS read_bytes,
        CASE WHEN missing IS NULL THEN weight_bytes * executed_touched + COALESCE(gathered_bytes, 0) * executed_rows END
            AS executed_read_bytes,
        CASE
            WHEN missing IS NULL
                THEN CASE
                    WHEN COALESCE(kv_read_elements + kv_written_elements, 0) = 0 THEN 0
                    ELSE kv_element_bytes * (
                        CASE WHEN kv_read_elements > 0 THEN kv_read_elements * kv_tokens ELSE 0 END
                        + kv_written_elements * useful_rows
                    )
                END
        END AS cache_bytes,
        CASE WHEN missing IS NULL THEN COALESCE(list_sum(tensor_bytes), 0) * useful_rows END AS activation_bytes,
        -- As much of a tensor as the L2 cache holds may never reach the memory. NULL size of the cache: all
        -- of it, which keeps the floor a floor.
        CASE
            WHEN missing IS NULL
                THEN COALESCE(list_sum(list_transform(tensor_bytes, lambda one: GREATEST(one * useful_rows - l2_bytes, 0))), 0)
        END AS spilled_bytes,
        CASE
            WHEN missing IS NULL
                THEN COALESCE(list_sum(list_transform(tensor_bytes, lambda one: GREATEST(one * executed_rows - l2_bytes, 0))), 0)
        END AS executed_spilled_bytes
    FROM with_missing
)
SELECT
    step_id, rank, role, layers, calls, only_communicates,
    CAST(flops AS BIGINT) AS flops,
    CAST(executed_flops AS BIGINT) AS executed_flops,
    CAST(read_bytes AS BIGINT) AS weight_bytes,
    CAST(cache_bytes AS BIGINT) AS kv_bytes,
    CAST(activation_bytes AS BIGINT) AS activation_bytes,
    CAST(read_bytes + cache_bytes + spilled_bytes AS BIGINT) AS hbm_bytes,
    CAST(executed_read_bytes + cache_bytes + executed_spilled_bytes AS BIGINT) AS executed_hbm_bytes,
    dtype, formula, source, missing
FROM work
