-- One row per collective or point-to-point operation on one rank, before it is matched across ranks.
--
-- It has what the rank's own trace shows: the kind of operation, its communicator and its size. Operations
-- with impossible times are left out.
-- @kind   scratch
-- @scope  run
-- @needs  classified_kernel, communication_args, event_kind, has_block_per_token, kernel, model_config, slice, step
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
-- @column description_id   BIGINT   Number of the description: equal for operations of a rank that describe their communicator in the same way.
-- @column key            BIGINT   Number that is equal for operations which may be the same one on two ranks.
-- @column unit           BIGINT   What is matched at once: the step (step.step_id), or a negative number for an operation that is matched on its own.
-- @column kind           BIGINT   Hash of the kernel's name.
-- @column synchronising  BOOLEAN  Whether no rank can end the operation before all ranks have begun it.
WITH named AS (
    SELECT
        kernel.id AS kernel_id,
        kernel.rank, kernel.ts,
        kernel.ts + GREATEST(kernel.dur, 0) AS end_ts,
        classified_kernel.name,  -- with the numbers of the call, where the profiler has them
        kernel.step_id, kernel.layer, kernel.role, kernel.launch_id,
        -- Whether its size is known only from the operator that launched it.
        described.kernel_id IS NULL AND NOT kernel.in_graph AS is_undescribed,
        described.* EXCLUDE (kernel_id)
    FROM kernel
    INNER JOIN classified_kernel USING (id)
    LEFT JOIN communication_args AS described ON kernel.id = described.kernel_id
    WHERE kernel.category = 'collective' AND kernel.ts IS NOT NULL
),
-- What many operations have in common: their texts are compared and ranked only once.
form AS (
    SELECT DISTINCT
        rank, name, layer, role, operation, group_name, group_ranks, group_size, in_elements,
        out_elements, element_type, source, destination
    FROM named
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
    FROM (SELECT *, lower(replace(COALESCE(operation, name), '_', '')) AS called FROM form)
),
known AS (
    SELECT
        * EXCLUDE (is_uneven),
        -- The shapes of one rank do not show how many tokens the others have.
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
            WHEN regexp_matches(element_type, 'float8|byte|char|bool|int8') THEN 1
            WHEN regexp_matches(element_type, 'bfloat16|half|float16|short') THEN 2
            WHEN regexp_matches(element_type, 'double|long|float64|int64') THEN 8
            WHEN regexp_matches(element_type, 'float|int') THEN 4
        END AS element_bytes
    FROM judged
),
numbered AS (
    SELECT
        *,
        -- Unknown if it exceeds 64 bits.
        TRY(CASE WHEN op IN ('all_gather', 'gather') THEN out_elements ELSE in_elements END * element_bytes) AS args_bytes,
        CASE
            WHEN regexp_matches(name, 'bf16|bfloat16|f16|half') THEN 2
            WHEN regexp_matches(name, 'f32|float') THEN 4
        END AS inferred_element_bytes,
        -- Equal if a rank describes the communicator of several operations in the same way.
        dense_rank() OVER (
            ORDER BY rank, op, role, group_name, group_ranks, group_size, source, destination
        ) AS description_id,
        -- Equal if operations on two ranks may be the same one.
        dense_rank() OVER (
            ORDER BY
                CASE WHEN op IN ('send', 'recv') THEN 'exchange' ELSE op END,
                CASE WHEN op NOT IN ('send', 'recv', 'broadcast') THEN role END,
                layer,
                args_bytes
        ) AS key
    FROM known
),
-- The inputs of the innermost operator around the launch call.
input AS (
    SELECT
        named.kernel_id,
        TRY_CAST(arg_max(json_extract(slice.args, '$."Input Dims"'), slice.depth) AS JSON[]) AS dims,
        TRY_CAST(arg_max(json_extract(slice.args, '$."Input type"'), slice.depth) AS VARCHAR[]) AS types
    FROM named
    INNER JOIN slice AS activity ON named.kernel_id = activity.id
    INNER JOIN slice ON named.rank = slice.rank AND activity.external_id = slice.external_id
    INNER JOIN event_kind ON slice.rank = event_kind.rank AND slice.cat = event_kind.cat
    WHERE named.is_undescribed AND event_kind.kind = 'operator' AND slice.args LIKE '%"Input Dims"%'
    GROUP BY named.kernel_id
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
    FROM input
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
            INNER JOIN named USING (kernel_id)
            WHERE named.role IN ('attn_allreduce', 'mlp_allreduce')
        )
    ) AS hidden_size
),
sized AS (
    SELECT
        named.kernel_id, named.ts, named.end_ts, named.step_id, named.sequence, numbered.*,
        CAST(given_shape.first.elements * given_shape.first.bytes AS BIGINT) AS shape_bytes,
        CASE
            WHEN numbered.op = 'all_reduce' AND numbered.role IN ('embed', 'attn_allreduce', 'mlp_allreduce')
                THEN COALESCE(padded.tokens, step.context_tokens + step.generation_tokens)
                    * width.hidden_size
                    * numbered.inferred_element_bytes
        END AS inferred_bytes
    FROM named
    INNER JOIN numbered
        ON named.rank = numbered.rank
        AND named.name IS NOT DISTINCT FROM numbered.name
        AND named.layer IS NOT DISTINCT FROM numbered.layer
        AND named.role IS NOT DISTINCT FROM numbered.role
        AND named.operation IS NOT DISTINCT FROM numbered.operation
        AND named.group_name IS NOT DISTINCT FROM numbered.group_name
        AND named.group_ranks IS NOT DISTINCT FROM numbered.group_ranks
        AND named.group_size IS NOT DISTINCT FROM numbered.group_size
        AND named.in_elements IS NOT DISTINCT FROM numbered.in_elements
        AND named.out_elements IS NOT DISTINCT FROM numbered.out_elements
        AND named.element_type IS NOT DISTINCT FROM numbered.element_type
        AND named.source IS NOT DISTINCT FROM numbered.source
        AND named.destination IS NOT DISTINCT FROM numbered.destination
    LEFT JOIN given_shape ON named.kernel_id = given_shape.kernel_id AND numbered.shapes_tell
    LEFT JOIN padded USING (launch_id)
    LEFT JOIN step ON named.step_id = step.step_id
    CROSS JOIN width
)
SELECT
    kernel_id, rank, ts, end_ts, op, role, layer, group_name, group_ranks, group_size, source,
    destination, sequence,
    -- The shapes of an all_gather are those of one rank's part; table collective multiplies it by the
    -- size of the communicator.
    COALESCE(args_bytes, shape_bytes, inferred_bytes) AS bytes,
    CASE
        WHEN args_bytes IS NOT NULL THEN 'args'
        WHEN shape_bytes IS NOT NULL THEN 'shapes'
        WHEN inferred_bytes IS NOT NULL THEN 'inferred'
    END AS bytes_source,
    description_id, key,
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
