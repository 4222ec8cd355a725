-- One row per collective or point-to-point operation on one rank, before it is matched across ranks.
--
-- What it is, on which ranks, and how many bytes it transfers, as far as the rank's own trace
-- tells.
-- @kind   scratch
-- @scope  run
-- @needs  communication_args, has_block_per_token, kernel, model_config, operator_shape, step
WITH named AS (
    SELECT
        kernel.id AS kernel_id,
        kernel.rank,
        kernel.ts,
        kernel.ts + GREATEST(kernel.dur, 0) AS end_ts,
        kernel.name,
        kernel.step_id,
        kernel.layer,
        kernel.role,
        kernel.launch_id,
        lower(replace(COALESCE(described.operation, kernel.name), '_', '')) AS called,
        described.group_name,
        described.group_ranks,
        described.group_size,
        described.in_elements,
        described.out_elements,
        described.element_type AS element,
        described.source,
        described.destination,
        described.sequence
    FROM kernel
    LEFT JOIN communication_args AS described ON kernel.id = described.kernel_id
    WHERE kernel.category = 'collective'
),
known AS (
    SELECT
        *,
        CASE
            WHEN regexp_matches(called, 'allreduce|crossdevicereduce|multimem') THEN 'all_reduce'
            WHEN called LIKE '%allgather%' THEN 'all_gather'
            WHEN called LIKE '%reducescatter%' THEN 'reduce_scatter'
            WHEN regexp_matches(called, 'alltoall|dispatch|combine') THEN 'all_to_all'
            WHEN called LIKE '%broadcast%' THEN 'broadcast'
            WHEN called LIKE '%barrier%' THEN 'barrier'
            WHEN called = 'send' OR role = 'pp_send' THEN 'send'
            WHEN called IN ('recv', 'receive') OR role = 'pp_recv' THEN 'recv'
            WHEN called LIKE '%sendrecv%' THEN 'all_to_all'
            WHEN called LIKE '%reduce%' THEN 'reduce'
            WHEN called LIKE '%gather%' THEN 'gather'
            WHEN called LIKE '%scatter%' THEN 'scatter'
            ELSE 'other'
        END AS op,
        CASE
            WHEN regexp_matches(element, 'float8|byte|char|bool|int8') THEN 1
            WHEN regexp_matches(element, 'bfloat16|half|float16|short') THEN 2
            WHEN regexp_matches(element, 'double|long|float64|int64') THEN 8
            WHEN regexp_matches(element, 'float|int') THEN 4
        END AS element_bytes
    FROM named
),
tensor AS (
    SELECT
        kernel_id,
        list_transform(
            list_zip(dims, types),
            lambda pair: {
                'elements': list_product(TRY_CAST(pair[1] AS BIGINT[])),
                'width': TRY_CAST(pair[1] AS BIGINT[])[-1],
                'bytes': CASE
                    WHEN pair[2] ILIKE '%bfloat16%' OR pair[2] ILIKE '%half%' THEN 2
                    WHEN pair[2] ILIKE '%float' THEN 4
                END
            }
        ) AS tensors
    FROM operator_shape
),
given_shape AS (
    SELECT
        kernel_id,
        list_filter(tensors, lambda one: one.elements > 0 AND one.bytes IS NOT NULL)[1] AS first
    FROM tensor
),
-- Rows of the batch that a graph was captured for: the KV-cache write has a block for each.
padded AS (
    SELECT launch_id, CAST(MAX(grid[1]) AS BIGINT) AS tokens
    FROM kernel
    WHERE in_graph AND has_block_per_token(name)
    GROUP BY launch_id
),
-- The model's width: configured, else that of the activations that other all-reduces were given.
width AS (
    SELECT COALESCE(
        (SELECT MAX(hidden_size) FROM model_config),
        (
            SELECT CASE WHEN COUNT(DISTINCT given_shape.first.width) = 1 THEN MAX(given_shape.first.width) END
            FROM given_shape
            INNER JOIN known USING (kernel_id)
            WHERE known.role IN ('attn_allreduce', 'mlp_allreduce')
        )
    ) AS hidden_size
),
sized AS (
    SELECT
        known.*,
        CASE WHEN known.op IN ('all_gather', 'gather') THEN out_elements ELSE in_elements END
        * element_bytes AS args_bytes,
        CAST(given_shape.first.elements * given_shape.first.bytes AS BIGINT) AS shape_bytes,
        CASE
            WHEN known.op = 'all_reduce' AND known.role IN ('embed', 'attn_allreduce', 'mlp_allreduce')
                THEN COALESCE(padded.tokens, step.context_tokens + step.generation_tokens)
                    * width.hidden_size
                    * CASE
                        WHEN regexp_matches(known.name, 'bf16|bfloat16|f16|half') THEN 2
                        WHEN regexp_matches(known.name, 'f32|float') THEN 4
                    END
        END AS inferred_bytes
    FROM known
    LEFT JOIN given_shape USING (kernel_id)
    LEFT JOIN padded USING (launch_id)
    LEFT JOIN step USING (step_id)
    CROSS JOIN width
)
SELECT
    kernel_id,
    rank,
    ts,
    end_ts,
    op,
    role,
    layer,
    group_name,
    group_ranks,
    group_size,
    source,
    destination,
    sequence,
    -- Of a gathering operator this is one rank's part: the group's size multiplies it later.
    COALESCE(args_bytes, shape_bytes, inferred_bytes) AS bytes,
    CASE
        WHEN args_bytes IS NOT NULL THEN 'args'
        WHEN shape_bytes IS NOT NULL THEN 'shapes'
        WHEN inferred_bytes IS NOT NULL THEN 'inferred'
    END AS bytes_source,
    -- Equal where one rank says the same of several operations' groups.
    dense_rank() OVER (
        ORDER BY rank, op, role, group_name, group_ranks, group_size, source, destination
    ) AS described_id,
    -- Equal where operations of two ranks could be one.
    dense_rank() OVER (
        ORDER BY
            CASE WHEN op IN ('send', 'recv') THEN 'exchange' ELSE op END,
            CASE WHEN op NOT IN ('send', 'recv', 'broadcast') THEN role END,
            layer,
            args_bytes
    ) AS key,
    -- What is matched in one go: a step, else the operation alone.
    CASE
        WHEN role IS NOT NULL AND step_id IS NOT NULL AND op NOT IN ('send', 'recv', 'broadcast')
            THEN step_id
        ELSE -1 - kernel_id
    END AS unit,
    (hash(name) >> 2)::BIGINT AS kind,
    -- No rank can end before all have begun.
    op IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier') AS synchronising
FROM sized
