-- One row per run: whether its decode steps replayed CUDA graphs.
--
-- It is flagged below nine in ten decode steps. Without graphs the host launches each kernel.
-- @column item      VARCHAR  What is checked.
-- @column state     VARCHAR  ok, look (may cost time) or unknown (not in the recording).
-- @column evidence  VARCHAR  The numbers; of what is unknown, why.
-- @column advice    VARCHAR  What to try; NULL unless the state is look.
-- @column query     VARCHAR  The query that shows more; NULL if there is none.
-- @key    item state evidence advice query
-- @empty  it always has one row
-- @chart  none
WITH counted AS (
    SELECT
        COUNT(*) FILTER (graph_mode <> 'none') AS in_graphs,
        COUNT(*) AS steps
    FROM step
    WHERE phase = 'decode' AND graph_mode IS NOT NULL
),
judged AS (
    SELECT
        *,
        CASE
            WHEN steps = 0 THEN 'unknown'
            WHEN in_graphs < 0.9 * steps THEN 'look'
            ELSE 'ok'
        END AS state
    FROM counted
)
SELECT
    'CUDA graphs' AS item,
    state,
    CASE
        WHEN steps = 0 THEN 'no decode step was recorded'
        ELSE format('{:,} of {:,} decode steps replayed graphs', in_graphs, steps)
    END AS evidence,
    CASE
        WHEN state = 'look'
            THEN 'Leave out --enforce-eager, and capture graphs for the batches that run.'
    END AS advice,
    'steps.anatomy' AS query
FROM judged
