-- One row per run: whether graphs were captured for the batches that ran.
--
-- It is flagged if a tenth of the decode steps had more tokens than the largest captured size, or if a
-- quarter of the rows of the others are padding, as in the finding 'graph padding'.
-- @column item      VARCHAR  What is checked.
-- @column state     VARCHAR  ok, look (may cost time) or unknown (not in the recording).
-- @column evidence  VARCHAR  The numbers; of what is unknown, why.
-- @column advice    VARCHAR  What to try; NULL unless the state is look.
-- @column query     VARCHAR  The query that shows more; NULL if there is none.
-- @key    item state evidence advice query
-- @empty  it always has one row
-- @chart  none
WITH captured AS (
    SELECT list_sort(ANY_VALUE(
        CAST(document -> '$.engine_config.compilation_config.cudagraph_capture_sizes' AS BIGINT[])
    )) AS sizes
    FROM run
),
decoded AS (
    SELECT
        step_tokens.tokens,
        list_min(list_filter(captured.sizes, lambda size: size >= step_tokens.tokens)) AS padded
    FROM step_tokens
    INNER JOIN step USING (step_id)
    CROSS JOIN captured
    WHERE step.phase = 'decode' AND captured.sizes IS NOT NULL
),
counted AS (
    SELECT
        COUNT(*) AS steps,
        COUNT(*) FILTER (padded IS NULL) AS beyond,
        100.0 * SUM(padded - tokens) / SUM(padded) AS padding_pct,
        MIN(tokens) AS least,
        MAX(tokens) AS most,
        (SELECT sizes FROM captured) AS sizes,
        (SELECT notable FROM finding_rule WHERE finding = 'graph padding') AS notable
    FROM decoded
),
judged AS (
    SELECT
        *,
        CASE
            WHEN steps = 0 THEN 'unknown'
            WHEN beyond > 0.1 * steps OR padding_pct >= notable THEN 'look'
            ELSE 'ok'
        END AS state
    FROM counted
)
SELECT
    'batch against capture sizes' AS item,
    state,
    CASE
        WHEN sizes IS NULL THEN 'the recording does not name the captured sizes'
        WHEN steps = 0 THEN 'no decode step with known tokens was recorded'
        ELSE concat(
            format('decode steps of {:,} to {:,} tokens, captured up to {:,}; {:,} of {:,} beyond', least, most, list_max(sizes), beyond, steps),
            format('; {:.0f}% of the captured rows are padding', padding_pct)
        )
    END AS evidence,
    CASE
        WHEN state <> 'look' THEN NULL
        WHEN beyond > 0.1 * steps THEN format('Raise --max-cudagraph-capture-size to {:,}.', most)
        ELSE 'Capture sizes closer to the batches that run (cudagraph_capture_sizes).'
    END AS advice,
    'graphs.replays' AS query
FROM judged
