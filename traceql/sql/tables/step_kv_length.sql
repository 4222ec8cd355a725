-- One row per step and source of the lengths of the keys and values of all its requests.
--
-- A request with sq tokens in the step, and sk of them and before them, has sq * sk - sq * (sq - 1) / 2
-- pairs: each token attends to itself and to the tokens before it.
-- @kind   scratch
-- @scope  run
-- @needs  iteration, request, request_step, step
-- @column step_id               BIGINT   Step (step.step_id).
-- @column rank                  BIGINT   Rank that ran it.
-- @column kv_source             VARCHAR  annotation or steps.jsonl; as in step_tokens.
-- @column context_pairs         BIGINT   Pairs of the requests whose prompt is processed.
-- @column generation_pairs      BIGINT   Pairs of the requests that generate tokens.
-- @column context_kv_tokens     BIGINT   Sum of sk of the requests whose prompt is processed.
-- @column generation_kv_tokens  BIGINT   Sum of sk of the requests that generate tokens.
WITH annotated AS (
    SELECT
        step_id,
        TRUE AS is_context,
        context_requests AS requests,
        context_tokens AS tokens,
        context_kv_tokens AS kv_tokens,
        context_squares AS squares,
        context_products AS products
    FROM iteration
    UNION ALL
    SELECT
        step_id, FALSE, generation_requests, generation_tokens, generation_kv_tokens, generation_squares,
        generation_products
    FROM iteration
),
annotated_part AS (
    SELECT
        step_id, is_context,
        CASE
            WHEN requests = 0 THEN 0
            WHEN kv_tokens >= tokens THEN kv_tokens
        END AS kv_tokens,
        CASE
            WHEN requests = 0 THEN 0
            WHEN products >= squares AND squares >= tokens AND (squares - tokens) % 2 = 0
                THEN products - (squares - tokens) // 2
        END AS pairs
    FROM annotated
),
by_annotation AS (
    SELECT
        step_id,
        MAX(pairs) FILTER (is_context) AS context_pairs,
        MAX(pairs) FILTER (NOT is_context) AS generation_pairs,
        MAX(kv_tokens) FILTER (is_context) AS context_kv_tokens,
        MAX(kv_tokens) FILTER (NOT is_context) AS generation_kv_tokens
    FROM annotated_part
    GROUP BY step_id
    HAVING COUNT(pairs) = 2 AND COUNT(kv_tokens) = 2
),
prompt AS (
    SELECT run, request_id, ANY_VALUE(prompt_tokens) AS prompt_tokens
    FROM request
    GROUP BY run, request_id
),
length AS (
    SELECT
        request_step.step_id, request_step.tokens, request_step.computed_tokens,
        request_step.computed_tokens + request_step.tokens AS kv_tokens,
        TRY_CAST(
            request_step.tokens::HUGEINT * (request_step.computed_tokens + request_step.tokens)
            - request_step.tokens::HUGEINT * (request_step.tokens - 1) // 2 AS BIGINT
        ) AS pairs,
        prompt.prompt_tokens
    FROM request_step
    LEFT JOIN prompt USING (run, request_id)
),
-- A request is in its prompt if not all of the prompt was computed. Where the prompt is unknown, those
-- with most tokens are. If that is not what the annotation counts, the step is left out.
phased AS (
    SELECT
        length.*, step.context_requests, step.context_tokens, step.generation_requests,
        step.generation_tokens,
        RANK() OVER (
            PARTITION BY length.step_id
            ORDER BY
                CASE
                    WHEN length.computed_tokens < length.prompt_tokens THEN 1
                    WHEN length.computed_tokens >= length.prompt_tokens THEN 3
                    ELSE 2
                END,
                length.tokens DESC
        ) <= step.context_requests AS is_context
    FROM length
    INNER JOIN step USING (step_id)
),
by_scheduler AS (
    SELECT
        step_id,
        COALESCE(SUM(pairs) FILTER (is_context), 0) AS context_pairs,
        COALESCE(SUM(pairs) FILTER (NOT is_context), 0) AS generation_pairs,
        COALESCE(SUM(kv_tokens) FILTER (is_context), 0) AS context_kv_tokens,
        COALESCE(SUM(kv_tokens) FILTER (NOT is_context), 0) AS generation_kv_tokens
    FROM phased
    GROUP BY step_id, context_requests, context_tokens, generation_requests, generation_tokens
    HAVING
        COUNT(pairs) = COUNT(*)
        AND COUNT(*) FILTER (is_context) = context_requests
        AND COUNT(*) FILTER (NOT is_context) = generation_requests
        AND COALESCE(SUM(tokens) FILTER (is_context), 0) = context_tokens
        AND COALESCE(SUM(tokens) FILTER (NOT is_context), 0) = generation_tokens
),
source_length AS (
    SELECT 'annotation' AS kv_source, * FROM by_annotation
    UNION ALL
    SELECT 'steps.jsonl' AS kv_source, * FROM by_scheduler
)
SELECT
    step_id, step.rank, source_length.kv_source,
    TRY_CAST(source_length.context_pairs AS BIGINT) AS context_pairs,
    TRY_CAST(source_length.generation_pairs AS BIGINT) AS generation_pairs,
    TRY_CAST(source_length.context_kv_tokens AS BIGINT) AS context_kv_tokens,
    TRY_CAST(source_length.generation_kv_tokens AS BIGINT) AS generation_kv_tokens
FROM source_length
INNER JOIN step USING (step_id)
WHERE
    TRY_CAST(source_length.context_pairs + source_length.generation_pairs AS BIGINT) IS NOT NULL
    AND TRY_CAST(source_length.context_kv_tokens + source_length.generation_kv_tokens AS BIGINT) IS NOT NULL
