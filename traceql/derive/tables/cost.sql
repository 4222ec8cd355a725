-- One row per rank, step, layer and role: what its kernels had to do at least.
--
-- docs/definitions.md, section "Speed of light", has the formulas. What is not known is NULL, and
-- column missing says why; nothing is guessed.
-- @schema main
-- @scope  run
-- @needs  collective, configured_shape, cost_formula, kernel, known_part, model_config, model_size, step_tokens
-- @empty_unless known_part
-- @column rank                BIGINT   Rank.
-- @column step_id             BIGINT   Step (step.step_id).
-- @column layer               BIGINT   Model layer, from 0; NULL outside layers.
-- @column role                VARCHAR  Part of the model (kernel.role).
-- @column kernels             BIGINT   Number of its kernels, copies and memory sets.
-- @column dur_ns              BIGINT   Sum of their durations, ns.
-- @column flops               BIGINT   Useful FLOPs, a multiply-add being two: without the rows that pad a batch; NULL if unknown.
-- @column executed_flops      BIGINT   The same with padded rows, as far as they are known; NULL if unknown.
-- @column weight_bytes        BIGINT   Bytes of weights that are read once; of experts, those expected to be chosen if all are equally likely. NULL if unknown.
-- @column kv_bytes            BIGINT   Bytes of the KV cache that are read and written; NULL if unknown.
-- @column activation_bytes    BIGINT   Bytes of activations that are read and written, from the cache or from memory; NULL if unknown.
-- @column hbm_bytes           BIGINT   Compulsory bytes: weights, KV cache, and of each activation what is larger than the L2 cache; NULL if unknown.
-- @column executed_hbm_bytes  BIGINT   The same with padded rows; NULL if unknown.
-- @column wire_bytes          BIGINT   Bytes that the rank has to send to others: size of the buffer x factor of nccl-tests; NULL without communication, or if unknown.
-- @column dtype               VARCHAR  Whose peak the FLOPs count against (peak.dtype); NULL if unknown.
-- @column formula             VARCHAR  Formula (cost_formula.formula); NULL if there is none for this role.
-- @column source              VARCHAR  Where the sizes come from: shapes (of the operators), configuration (of the model) or arguments (of the communication); NULL if unknown.
-- @column missing             VARCHAR  What is missing for flops and hbm_bytes, or for wire_bytes of a role that only communicates; NULL if nothing is.
WITH called AS (
    SELECT rank, step_id, layer, role, COUNT(*) AS kernels, SUM(dur)::BIGINT AS dur_ns
    FROM kernel
    WHERE role IS NOT NULL AND step_id IS NOT NULL
    GROUP BY rank, step_id, layer, role
),
part_call AS (
    SELECT called.*, known_part.kind_id
    FROM called
    INNER JOIN known_part
        ON called.rank = known_part.rank
        AND called.role = known_part.role
        AND called.layer IS NOT DISTINCT FROM known_part.layer
),
sent AS (
    SELECT
        kernel.rank,
        kernel.step_id,
        kernel.layer,
        kernel.role,
        collective.bytes * CASE
            WHEN collective.op = 'all_reduce' THEN 2.0 * (collective.group_size - 1) / collective.group_size
            WHEN collective.op IN ('all_gather', 'reduce_scatter', 'all_to_all')
                THEN 1.0 * (collective.group_size - 1) / collective.group_size
            WHEN collective.op IN ('broadcast', 'reduce', 'send', 'recv') THEN 1.0
        END AS bytes,
        collective.bytes IS NOT NULL AND collective.group_size IS NOT NULL AS is_known,
        CASE collective.bytes_source WHEN 'args' THEN 'arguments' WHEN 'inferred' THEN 'configuration' ELSE 'shapes' END AS source,
        collective.op
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
),
wire AS (
    SELECT
        rank,
        step_id,
        layer,
        role,
        SUM(bytes ORDER BY bytes) AS bytes,
        BOOL_AND(is_known) AS is_known,
        MIN(source) AS source,
        MIN(op) AS op
    FROM sent
    GROUP BY rank, step_id, layer, role
),
-- Layers of one kind have the same cost in a step.
stepped AS (
    SELECT step_id, kind_id, SUM(dur_ns) AS dur_ns, COUNT(*) AS layers
    FROM part_call
    GROUP BY step_id, kind_id
),
sized AS (
    SELECT
        stepped.*,
        part.* EXCLUDE (layer, kind_id),
        CASE WHEN part.rows_of = 'logit_rows' OR part.role = 'lm_head' THEN step_tokens.logit_rows ELSE step_tokens.tokens END
            AS useful_rows,
        CASE
            WHEN part.rows_of = 'logit_rows' OR part.role = 'lm_head' THEN step_tokens.logit_rows
            ELSE COALESCE(step_tokens.executed_tokens, step_tokens.tokens)
        END AS executed_rows,
        step_tokens.context_pairs,
        step_tokens.generation_pairs,
        step_tokens.context_kv_tokens + step_tokens.generation_kv_tokens AS kv_tokens
    FROM stepped
    INNER JOIN (SELECT DISTINCT ON (kind_id) * FROM known_part ORDER BY kind_id, layer) AS part USING (kind_id)
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
        layers * weight_bytes AS all_weight_bytes,
        layers * weight_bytes / hbm_gbps AS weight_ns
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
told AS (
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
        CASE
            WHEN missing IS NULL OR missing = missing_sizes OR missing LIKE 'experts that%'
                THEN CASE
                    WHEN attends THEN context_pair_flops * context_pairs + generation_pair_flops * generation_pairs
                    ELSE flops_per_row * useful_rows
                END
        END AS flops,
        CASE
            WHEN missing IS NULL OR missing = missing_sizes OR missing LIKE 'experts that%'
                THEN CASE
                    WHEN attends THEN context_pair_flops * context_pairs + generation_pair_flops * generation_pairs
                    ELSE flops_per_row * executed_rows
                END
        END AS executed_flops,
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
    FROM told
)
SELECT
    part_call.rank,
    part_call.step_id,
    part_call.layer,
    part_call.role,
    part_call.kernels,
    part_call.dur_ns,
    CAST(work.flops AS BIGINT) AS flops,
    CAST(work.executed_flops AS BIGINT) AS executed_flops,
    CAST(work.read_bytes AS BIGINT) AS weight_bytes,
    CAST(work.cache_bytes AS BIGINT) AS kv_bytes,
    CAST(work.activation_bytes AS BIGINT) AS activation_bytes,
    CAST(work.read_bytes + work.cache_bytes + work.spilled_bytes AS BIGINT) AS hbm_bytes,
    CAST(
        work.executed_read_bytes + work.cache_bytes + work.executed_spilled_bytes AS BIGINT
    ) AS executed_hbm_bytes,
    CAST(CASE WHEN wire.is_known THEN wire.bytes END AS BIGINT) AS wire_bytes,
    work.dtype,
    COALESCE(work.formula, wire.op) AS formula,
    CASE
        WHEN work.only_communicates AND wire.is_known THEN wire.source
        WHEN NOT work.only_communicates THEN work.source
    END AS source,
    CASE
        WHEN work.only_communicates AND wire.bytes IS NULL THEN 'size of the buffer'
        ELSE work.missing
    END AS missing
FROM part_call
INNER JOIN work ON part_call.step_id = work.step_id AND part_call.kind_id = work.kind_id
LEFT JOIN wire
    ON part_call.rank = wire.rank
    AND part_call.step_id = wire.step_id
    AND part_call.role = wire.role
    AND part_call.layer IS NOT DISTINCT FROM wire.layer
ORDER BY part_call.step_id, part_call.layer, part_call.role
