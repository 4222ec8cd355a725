-- One row per collective or point-to-point operation on one rank, before it is matched across ranks.
--
-- It has what the rank's own trace tells: the kind of operation, its communicator and its size.
-- @kind   scratch
-- @scope  run
-- @needs  communication_args, has_block_per_token, kernel, model_config, operator_shape, slice, step
-- @empty_unless kernel WHERE category = 'collective'
-- @column kernel_id      BIGINT   Kernel of the operation (kernel.id).
-- @column rank           BIGINT   Rank.
-- @column ts             BIGINT   Start of the kernel by the rank's own clock, ns since the run's first event.
-- @column end_ts         BIGINT   End of the kernel by the rank's own clock, ns since the run's first event.
-- @column op             VARCHAR  Operation; as in collective.
-- @column role           VARCHAR  Role of the kernel; NULL if unknown.
-- @column layer          BIGINT   Model layer of the kernel; NULL if unknown or outside layers.
-- @column group_name     VARCHAR  Name of the process group in the arguments of the event; NULL if there is none.
-- @column group_ranks    VARCHAR  Ranks of the process group in the arguments, as a JSON list; NULL if there are none.
-- @column group_size     BIGINT   Number of ranks in the process group, from the arguments; NULL if there is none.
-- @column source         BIGINT   Rank that sends, from the arguments of a point-to-point operation; NULL otherwise.
-- @column destination    BIGINT   Rank that receives, from the arguments of a point-to-point operation; NULL otherwise.
-- @column sequence       BIGINT   Number of the operation in its process group, from the arguments; NULL if there is none.
-- @column bytes          BIGINT   Size of the buffer, bytes; for an all_gather whose size comes from shapes, the part of one rank. NULL if unknown.
-- @column bytes_source   VARCHAR  Where bytes comes from: args, shapes or inferred; as in collective.
-- @column described_id   BIGINT   Number of the description: equal for operations of a rank that describe their communicator in the same way.
-- @column key            BIGINT   Number that is equal for operations which may be the same one on two ranks.
-- @column unit           BIGINT   What is matched at once: the step (step.step_id), or a negative number for an operation that is matched on its own.
-- @column kind           BIGINT   Number that tells kernel names apart (a hash of the name).
-- @column synchronising  BOOLEAN  Whether no rank can end the operation before all ranks have begun it.
WITH named AS (
    SELECT
        kernel.id AS kernel_id,
        kernel.rank,
        kernel.ts,
        kernel.ts + GREATEST(kernel.dur, 0) AS end_ts,
        slice.name,  -- with the numbers of the call, where the profiler tells them
        kernel.step_id,
        kernel.layer,
        kernel.role,
        kernel.launch_id,
        lower(replace(COALESCE(described.operation, slice.name), '_', '')) AS called,
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
    INNER JOIN slice USING (id)
    LEFT JOIN communication_args AS described ON kernel.id = described.kernel_id
    WHERE kernel.category = 'collective'
),
-- Where ranks have unequal numbers of tokens for the experts, NCCL's kernel makes a broadcast, or a
-- reduction, for each rank at once: together they gather, or scatter the sums.
judged AS (
    SELECT
        *,
        COALESCE(
            (role = 'dispatch' AND called LIKE '%broadcast%')
            OR (role = 'combine' AND called LIKE '%reduce%' AND NOT regexp_matches(called, 'scatter|allreduce')),
            FALSE
        ) AS is_uneven
    FROM named
),
known AS (
    SELECT
        * EXCLUDE (is_uneven),
        -- The shapes of one rank do not tell how many tokens the others have.
        NOT is_uneven AS shapes_tell,
        CASE
            WHEN is_uneven AND role = 'dispatch' THEN 'all_gather'
            WHEN is_uneven THEN 'reduce_scatter'
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
    FROM judged
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
-- The number of tokens that a graph was captured for: its KV-cache write has one block per token.
padded AS (
    SELECT launch_id, CAST(MAX(grid[1]) AS BIGINT) AS tokens
    FROM kernel
    WHERE in_graph AND has_block_per_token(name)
    GROUP BY launch_id
),
-- The hidden size: from the model configuration, else the last dimension of the tensors that eager
-- all-reduces in layers had as input, if it is the same for all.
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
    LEFT JOIN given_shape ON known.kernel_id = given_shape.kernel_id AND known.shapes_tell
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
    -- The shapes of an all_gather are those of one rank's part; table collective multiplies it by the
    -- size of the communicator.
    COALESCE(args_bytes, shape_bytes, inferred_bytes) AS bytes,
    CASE
        WHEN args_bytes IS NOT NULL THEN 'args'
        WHEN shape_bytes IS NOT NULL THEN 'shapes'
        WHEN inferred_bytes IS NOT NULL THEN 'inferred'
    END AS bytes_source,
    -- Equal if a rank describes the communicator of several operations in the same way.
    dense_rank() OVER (
        ORDER BY rank, op, role, group_name, group_ranks, group_size, source, destination
    ) AS described_id,
    -- Equal if operations on two ranks may be the same one.
    dense_rank() OVER (
        ORDER BY
            CASE WHEN op IN ('send', 'recv') THEN 'exchange' ELSE op END,
            CASE WHEN op NOT IN ('send', 'recv', 'broadcast') THEN role END,
            layer,
            args_bytes
    ) AS key,
    -- What is matched at once: a step, or else a single operation.
    CASE
        WHEN role IS NOT NULL AND step_id IS NOT NULL AND op NOT IN ('send', 'recv', 'broadcast')
            THEN step_id
        ELSE -1 - kernel_id
    END AS unit,
    (hash(name) >> 2)::BIGINT AS kind,
    -- No rank can end such an operation before all ranks have begun it.
    op IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'barrier') AS synchronising
FROM sized
