-- One row per check of the ledger about a file next to the traces: steps.jsonl, the configuration of the model, or peaks.
--
-- run_size_check has those of run.json, profile_file_check those of profiles of Nsight Compute. Each takes time to plan.
-- @kind   scratch
-- @scope  run
-- @needs  collective, kernel, layout, model_part, operator_size, peak_file, rank_model, role_work, scheduled_request
-- @needs  step_kv_length, trace, user_peak
-- @empty_unless scheduled_request
-- @empty_unless model_part
-- @empty_unless user_peak
-- @empty_unless peak_file
-- @column place       INTEGER  Place among the checks of a rank.
-- @column rank        BIGINT   Rank; the first one where the check is about a file, NULL without a trace.
-- @column check_name  VARCHAR  Name of the check.
-- @column value       BIGINT   What was found.
-- @column total       BIGINT   The whole that value is a part of.
-- @column ok          BOOLEAN  Whether the check holds; NULL if there is nothing to check.
-- @column note        VARCHAR  Meaning of value and total.
WITH length_pair AS (
    SELECT
        ANY_VALUE(rank) AS rank,
        COUNT(
            DISTINCT ROW(
                context_pairs, generation_pairs, context_kv_tokens, generation_kv_tokens
            )
        ) = 1 AS are_equal
    FROM step_kv_length
    GROUP BY step_id
    HAVING COUNT(*) = 2
),
-- What of the weights in the model configuration the kernels contradict: numbers of rows of table cost.
contradicted_part AS (
    SELECT
        rank, step_id, role, layers, calls, only_communicates,
        COALESCE(missing LIKE '%can be read in the time%', FALSE) AS is_too_large,
        COALESCE(missing LIKE 'kernels of the quantization%', FALSE) AS is_too_narrow
    FROM role_work
),
weight_check AS (
    SELECT rank, calls AS parts, is_too_large, is_too_narrow
    FROM contradicted_part
    WHERE NOT (only_communicates AND (is_too_large OR is_too_narrow))
    UNION ALL
    -- Parts that only communicate miss the size of the buffer first, if that is unknown.
    SELECT rank, 1, is_too_large AND is_sized, is_too_narrow AND is_sized
    FROM (
        SELECT
            part.rank, part.is_too_large, part.is_too_narrow,
            COUNT(collective.bytes) > 0 AS is_sized
        FROM contradicted_part AS part
        INNER JOIN kernel
            ON part.step_id = kernel.step_id
            AND part.role = kernel.role
            AND list_contains(part.layers, COALESCE(kernel.layer, -1))
        LEFT JOIN collective ON kernel.id = collective.kernel_id
        WHERE part.only_communicates AND (part.is_too_large OR part.is_too_narrow)
        GROUP BY part.rank, part.step_id, part.role, kernel.layer, part.is_too_large, part.is_too_narrow
    )
),
-- Products of which both the recorded shapes and the configuration say how large they are.
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
)
SELECT
    69 AS place, rank, 'KV lengths' AS check_name, COUNT(*) FILTER (are_equal) AS value, COUNT(*) AS total,
    BOOL_AND(are_equal) AS ok,
    'steps whose KV lengths are the same in the annotation and in steps.jsonl; steps for which both are known' AS note
FROM length_pair
GROUP BY rank
UNION ALL
SELECT
    70, rank, 'computed tokens', COUNT(*) FILTER (is_possible), COUNT(*), BOOL_AND(is_possible),
    'numbers of computed tokens in steps.jsonl that can be, from the iterations beside them, the request and max_model_len; all of them'
FROM scheduled_request
WHERE is_possible IS NOT NULL
GROUP BY rank
UNION ALL
SELECT
    70, rank, 'times of iterations', COUNT(*) FILTER (agrees), COUNT(*), FALSE,
    'lines of steps.jsonl whose time is that of the step with their number; all lines with a step '
    || '(the others are not used: they are of another iteration or of another recording)'
FROM (SELECT DISTINCT run, rank, number, agrees FROM scheduled_request WHERE agrees IS NOT NULL)
GROUP BY rank
HAVING NOT BOOL_AND(agrees)
UNION ALL
SELECT
    64, rank, 'shapes of the model', equal, parts, equal = parts,
    'matrix products whose recorded shapes are those of the model configuration; products of which both are known'
FROM configured_shape
UNION ALL
SELECT
    66, trace.rank, 'given peaks', NULL, NULL, FALSE,
    format('no row and no file of --peaks is for {}; GPU names must match', COALESCE(trace.device_name, 'an unnamed GPU'))
FROM trace
WHERE
    trace.rank IS NOT NULL
    AND (EXISTS (FROM user_peak) OR EXISTS (FROM peak_file))
    AND NOT EXISTS (FROM user_peak WHERE regexp_matches(trace.device_name, user_peak.device))
    AND NOT EXISTS (FROM peak_file WHERE peak_file.device_name = trace.device_name)
UNION ALL
SELECT
    65, rank, 'weights of the model',
    CAST(COALESCE(SUM(parts) FILTER (NOT is_too_large AND NOT is_too_narrow), 0) AS BIGINT), CAST(SUM(parts) AS BIGINT), FALSE,
    'parts whose weights in the model configuration '
    || concat_ws(
        ' and ',
        CASE WHEN BOOL_OR(is_too_large) THEN 'could be read in the time of their kernels' END,
        CASE WHEN BOOL_OR(is_too_narrow) THEN 'are not quantized, or in a way that kernels show' END
    )
    || '; give the configuration of the recorded model'
FROM weight_check
GROUP BY rank
HAVING BOOL_OR(is_too_large OR is_too_narrow)
