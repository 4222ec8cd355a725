-- One row per run: whether prompts could use the cache of an earlier request with the same beginning.
--
-- Prompts are those of requests that were sent while the profiler recorded. A hit is a prompt of which
-- tokens were known before its first step.
-- @column item      VARCHAR  What is checked.
-- @column state     VARCHAR  ok, look (may cost time) or unknown (not in the recording).
-- @column evidence  VARCHAR  The numbers; of what is unknown, why.
-- @column advice    VARCHAR  What to try; NULL unless the state is look.
-- @column query     VARCHAR  The query that shows more; NULL if there is none.
-- @key    item state evidence advice query
-- @empty  it always has one row
-- @chart  none
WITH begun AS (
    SELECT
        request_step.request_id,
        arg_min(request_step.tokens, step.ts) AS tokens,
        arg_min(request_step.computed_tokens, step.ts) AS computed
    FROM request_step
    INNER JOIN step USING (step_id)
    INNER JOIN request ON request_step.run = request.run AND request_step.request_id = request.request_id AND request.profiled
    INNER JOIN run ON request.run = run.run
    WHERE request.ts >= run.window_ts
    GROUP BY request_step.request_id
),
counted AS (
    SELECT
        COUNT(*) FILTER (computed IS NOT NULL) AS prompts,
        COUNT(*) FILTER (computed > 0) AS hits,
        SUM(computed) AS tokens,
        (
            SELECT ANY_VALUE(CAST(document ->> '$.engine_config.cache_config.enable_prefix_caching' AS BOOLEAN)) FROM run
        ) AS is_on
    FROM begun
),
judged AS (
    SELECT
        *,
        CASE
            WHEN is_on IS NULL THEN 'unknown'
            WHEN NOT is_on THEN 'look'
            ELSE 'ok'
        END AS state
    FROM counted
)
SELECT
    'prefix cache' AS item,
    state,
    CASE
        WHEN is_on IS NULL THEN 'unknown whether it is on'
        ELSE concat(
            CASE WHEN is_on THEN 'on' ELSE 'off' END,
            CASE
                WHEN NOT is_on THEN ''
                WHEN prompts = 0 THEN '; no prompt began in the recording'
                ELSE format('; {:,} of {:,} prompts that began had tokens in it, {:,} in all', hits, prompts, COALESCE(tokens, 0))
            END
        )
    END AS evidence,
    CASE
        WHEN state = 'look' THEN 'If prompts share a beginning, such as a system prompt, turn it on (--enable-prefix-caching).'
    END AS advice,
    'serving.requests' AS query
FROM judged
