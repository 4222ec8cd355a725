-- One row per run: how full the KV cache was at most.
--
-- Above nine tenths vLLM soon has to preempt requests; what it then computes again is lost. The tokens
-- are those that attention read in a step, so that cached prefixes that no request uses are not counted.
-- @column item      VARCHAR  What is checked.
-- @column state     VARCHAR  ok, look (may cost time) or unknown (not in the recording).
-- @column evidence  VARCHAR  The numbers; of what is unknown, why.
-- @column advice    VARCHAR  What to try; NULL unless the state is look.
-- @column query     VARCHAR  The query that shows more; NULL if there is none.
-- @key    item state evidence advice query
-- @empty  it always has one row
-- @chart  none
WITH held AS (
    SELECT MAX(tokens) AS tokens
    FROM (
        SELECT COALESCE(context_kv_tokens, 0) + COALESCE(generation_kv_tokens, 0) AS tokens
        FROM step_tokens
        WHERE kv_source IS NOT NULL
    )
),
counted AS (
    SELECT
        held.tokens,
        (
            SELECT ANY_VALUE(CAST(document ->> '$.engine_config.cache_config.kv_cache_size_tokens' AS BIGINT)) FROM run
        ) AS room
    FROM held
),
judged AS (
    SELECT
        *,
        CASE
            WHEN tokens IS NULL OR room IS NULL THEN 'unknown'
            WHEN tokens > 0.9 * room THEN 'look'
            ELSE 'ok'
        END AS state
    FROM counted
)
SELECT
    'KV cache use' AS item,
    state,
    CASE
        WHEN room IS NULL THEN 'the recording does not name the size of the KV cache'
        WHEN tokens IS NULL THEN 'the recording has no lengths of requests'
        ELSE format('at most {:,} of {:,} tokens, {:.0f}%', tokens, room, 100.0 * tokens / room)
    END AS evidence,
    CASE
        WHEN state = 'look'
            THEN 'Lower --max-num-seqs, or give more room: --gpu-memory-utilization, more GPUs, or --kv-cache-dtype fp8.'
    END AS advice,
    'serving.requests' AS query
FROM judged
