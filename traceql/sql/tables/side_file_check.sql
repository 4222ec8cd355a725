-- One row per check of the ledger about a file next to the traces: run.json, steps.jsonl, the configuration of the model, peaks, or profiles of Nsight Compute.
-- @kind   scratch
-- @scope  run
-- @needs  collective, kernel, kernel_key, kernel_match, launch_key, layout, model_part, operation, operator_size, peak_file
-- @needs  profile_check, profile_file, profiled_launch, rank_model, recorder, role_work, run, scheduled_request, step_kv_length
-- @needs  trace, user_peak
-- @empty_unless run
-- @empty_unless scheduled_request
-- @empty_unless model_part
-- @empty_unless user_peak
-- @empty_unless peak_file
-- @empty_unless profile_file
-- @column place       INTEGER  Place among the checks of a rank.
-- @column rank        BIGINT   Rank; the first one where the check is about a file, NULL without a trace.
-- @column check_name  VARCHAR  Name of the check.
-- @column value       BIGINT   What was found.
-- @column total       BIGINT   The whole that value is a part of.
-- @column ok          BOOLEAN  Whether the check holds; NULL if there is nothing to check.
-- @column note        VARCHAR  Meaning of value and total.
WITH possible AS (
    SELECT
        CASE WHEN tp BETWEEN 1 AND 2147483647 THEN tp END AS tp,
        CASE WHEN pp BETWEEN 1 AND 2147483647 THEN pp END AS pp,
        CASE WHEN dp BETWEEN 1 AND 2147483647 THEN dp END AS dp,
        CASE WHEN world_size BETWEEN 1 AND 2147483647 THEN world_size END AS world_size
    FROM run
),
-- A size is unknown if those of several run directories differ.
stated_size AS (
    SELECT
        CASE WHEN MIN(tp) = MAX(tp) THEN MIN(tp) END AS tp,
        CASE WHEN MIN(pp) = MAX(pp) THEN MIN(pp) END AS pp,
        CASE WHEN MIN(dp) = MAX(dp) THEN MIN(dp) END AS dp,
        CASE WHEN MIN(world_size) = MAX(world_size) THEN MIN(world_size) END AS world_size
    FROM possible
),
place AS (
    UNPIVOT (SELECT tp_rank AS tp, pp_rank AS pp, dp_rank AS dp, rank AS world_size FROM trace)
    ON tp, pp, dp, world_size INTO NAME size VALUE number
),
stated AS (UNPIVOT (FROM stated_size) ON tp, pp, dp, world_size INTO NAME size VALUE ranks),
-- The numbers of ranks that operations state which only tensor parallelism has.
tensor_operation AS (
    SELECT DISTINCT group_size AS ranks
    FROM operation
    WHERE role IN ('attn_allreduce', 'logits_gather') AND group_size IS NOT NULL
),
logits AS (SELECT DISTINCT rank FROM kernel WHERE role = 'lm_head'),
found AS (
    UNPIVOT (SELECT DISTINCT tp_size AS tp, pp_size AS pp, dp_size AS dp, source FROM layout)
    ON tp, pp, dp INTO NAME size VALUE ranks
),
refuted AS (
    SELECT size, format('{} is {}, but a rank has the number {} there', size, stated.ranks, MAX(place.number)) AS reason
    FROM place
    INNER JOIN stated USING (size)
    WHERE place.number >= stated.ranks
    GROUP BY size, stated.ranks
    UNION ALL
    SELECT 'tp', format('tp is {}, but {} ranks take part in tensor-parallel operations', stated_size.tp, tensor_operation.ranks)
    FROM stated_size
    INNER JOIN tensor_operation ON stated_size.tp != tensor_operation.ranks
    UNION ALL
    SELECT 'tp', 'tp is 1, but ranks add up parts of attention'
    FROM stated_size
    WHERE
        tp = 1
        AND NOT EXISTS (FROM tensor_operation)
        AND EXISTS (FROM kernel WHERE role = 'attn_allreduce')
    UNION ALL
    SELECT
        'pp', format('pp is {}, but {} stages are found ({})', stated_size.pp, COALESCE(rank_model.stages::VARCHAR, 'more'), rank_model.source)
    FROM stated_size
    INNER JOIN rank_model ON stated_size.pp != COALESCE(rank_model.stages, 0)
    GROUP BY ALL
    UNION ALL
    SELECT 'pp', format('pp is {}, but ranks of stage {} compute logits', stated_size.pp, rank_model.stage)
    FROM stated_size
    INNER JOIN rank_model ON rank_model.stage + 1 < stated_size.pp
    INNER JOIN logits ON rank_model.rank = logits.rank
    GROUP BY ALL
    UNION ALL
    SELECT 'world_size', format('world_size is {}, but tp x pp x dp is {}', world_size, tp::HUGEINT * pp * dp)
    FROM stated_size
    WHERE tp::HUGEINT * pp * dp != world_size
    UNION ALL
    SELECT
        'world_size', format('world_size is {}, but a trace is of a job of {} ranks', stated_size.world_size, recorder.world_size)
    FROM stated_size
    INNER JOIN recorder ON recorder.world_size > 0 AND stated_size.world_size % recorder.world_size != 0
    GROUP BY ALL
),
contradicted_config AS (
    FROM refuted
    UNION ALL
    SELECT size, format('{} is {}, but {} fits ({})', size, stated.ranks, found.ranks, found.source)
    FROM found
    INNER JOIN stated USING (size)
    WHERE found.ranks != stated.ranks AND size NOT IN (SELECT size FROM refuted)
),
length_pair AS (
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
),
-- How profiles fit the trace.
standing AS (
    SELECT DISTINCT launch_key.launch
    FROM launch_key
    INNER JOIN profiled_launch ON launch_key.launch = profiled_launch.id
    INNER JOIN kernel_match
        ON profiled_launch.file_id = kernel_match.file_id
        AND (
            launch_key.launch = kernel_match.launch
            OR (kernel_match.launch IS NULL AND launch_key.key_id = kernel_match.key_id)
        )
),
of_file AS (
    SELECT profiled_launch.file_id, COUNT(standing.launch) AS standing, COUNT(*) AS launches
    FROM profiled_launch
    LEFT JOIN standing ON profiled_launch.id = standing.launch
    GROUP BY profiled_launch.file_id
),
file_entry AS (
    SELECT file_id, check_name, value, total, ok, note FROM profile_check
    UNION ALL
    SELECT
        file_id, 'launches of the profile', standing, launches,
        CASE WHEN EXISTS (FROM kernel WHERE kind = 'kernel') THEN standing > 0 END,
        'launches that stand for kernels of the trace (more than 0); launches in the file; ncu.joined says which'
    FROM of_file
    UNION ALL
    SELECT
        profiled_launch.file_id, 'GPU of the profile', COUNT(*) FILTER (profiled_launch.device_name = trace.device_name),
        COUNT(*), BOOL_AND(profiled_launch.device_name = trace.device_name),
        format(
            'launches on the GPU of the trace; all launches, on {}; other GPUs run other kernels and have other caches',
            string_agg(DISTINCT profiled_launch.device_name, ', ' ORDER BY profiled_launch.device_name)
        )
    FROM profiled_launch
    INNER JOIN trace
        ON trace.rank = (SELECT MIN(rank) FROM trace)
        AND profiled_launch.device_name IS NOT NULL
        AND trace.device_name IS NOT NULL
    GROUP BY profiled_launch.file_id
),
counted AS (
    SELECT
        kernel.rank,
        COUNT(kernel_match.kernel_id) AS kernels,
        COUNT(*) FILTER (kernel_match.is_mean) AS means,
        COUNT(*) AS total,
        CAST(COALESCE(SUM(kernel.dur) FILTER (kernel_match.kernel_id IS NOT NULL), 0) AS BIGINT) AS dur,
        CAST(SUM(kernel.dur) AS BIGINT) AS total_dur
    FROM kernel
    LEFT JOIN (SELECT kernel_id, BOOL_OR(launch IS NULL) AS is_mean FROM kernel_match GROUP BY kernel_id) AS kernel_match
        ON kernel.id = kernel_match.kernel_id
    WHERE kernel.kind = 'kernel' AND EXISTS (FROM profile_file)
    GROUP BY kernel.rank
),
varying AS (
    SELECT
        COUNT(*) FILTER (GREATEST(kernel_key.bytes_spread_pct, kernel_key.flops_spread_pct) > 5) AS keys,
        COUNT(*) AS total
    FROM kernel_key
    WHERE kernel_key.id IN (SELECT key_id FROM kernel_match WHERE launch IS NULL)
)
SELECT
    41 AS place, (SELECT MIN(rank) FROM trace) AS rank, 'sizes in run.json' AS check_name,
    ANY_VALUE(stated.sizes) - COUNT(DISTINCT contradicted_config.size) AS value, ANY_VALUE(stated.sizes) AS total, FALSE AS ok,
    'sizes of parallelism in run.json that hold; all that it states; '
    || string_agg(contradicted_config.reason, '; ' ORDER BY contradicted_config.reason) AS note
FROM contradicted_config
CROSS JOIN (SELECT COUNT(tp) + COUNT(pp) + COUNT(dp) + COUNT(world_size) AS sizes FROM stated_size) AS stated
HAVING COUNT(*) > 0
UNION ALL
SELECT
    69, rank, 'KV lengths', COUNT(*) FILTER (are_equal), COUNT(*), BOOL_AND(are_equal),
    'steps whose KV lengths are the same in the annotation and in steps.jsonl; steps for which both are known'
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
UNION ALL
SELECT
    80,
    (SELECT MIN(rank) FROM trace) AS rank,
    file_entry.check_name, file_entry.value, file_entry.total, file_entry.ok,
    format('{}: {}', parse_filename(profile_file.path), file_entry.note) AS note
FROM file_entry
INNER JOIN profile_file ON file_entry.file_id = profile_file.id
UNION ALL
SELECT
    80, rank, 'kernels with counters', kernels, total, NULL,
    'kernels for which launches of a profile stand; all kernels'
FROM counted
UNION ALL
SELECT
    80, rank, 'kernel time with counters', dur, total_dur, NULL,
    'duration of the kernels for which launches of a profile stand; of all kernels, ns'
FROM counted
UNION ALL
SELECT
    80, rank, 'kernels with mean counters', means, kernels, NULL,
    'kernels with the mean of their name, grid and block, which do not tell the lengths in attention or the routing of experts; '
    || 'kernels for which launches stand'
FROM counted
WHERE means > 0
UNION ALL
SELECT
    80, (SELECT MIN(rank) FROM trace), 'counters that vary', keys, total, NULL,
    'names, grids and blocks whose launches differ by more than 5% in bytes or FLOPs, so that their mean may fit none; all that have a mean'
FROM varying
WHERE total > 0
