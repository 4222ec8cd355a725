-- Many of the tokens that graph replays compute are padding.
-- @title      graph padding
-- @notable    25
-- @severe     50
-- @unit       % of captured tokens
-- @evidence   graphs.replays
-- @advice     Capture graphs for sizes closer to the batches that run.
-- @source     own: the results for padding are thrown away
-- @needs      has_block_per_token, kernel, step
WITH replay AS (
    SELECT
        kernel.launch_id,
        MAX(kernel.grid[1]) FILTER (has_block_per_token(kernel.name)) AS captured,
        ANY_VALUE(step.context_tokens + step.generation_tokens) AS tokens
    FROM kernel
    INNER JOIN step USING (step_id)
    WHERE kernel.in_graph
    GROUP BY kernel.launch_id
),
padding AS (
    SELECT SUM(captured - tokens) AS padded, SUM(captured) AS captured
    FROM replay
    WHERE captured >= tokens
)
SELECT
    100.0 * padded / captured AS value,
    NULL::BIGINT AS cost_ns,
    format(
        'Graph replays computed {:,} tokens, {:.0f}% of which were padding.', captured, 100.0 * padded / captured
    ) AS finding
FROM padding
