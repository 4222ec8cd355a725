-- Decode steps run without CUDA graphs.
-- @title      decode without graphs
-- @notable    50
-- @severe     90
-- @unit       % of decode steps
-- @evidence   graphs.replays
-- @advice     Remove enforce_eager, or capture graphs for the batch sizes of these steps.
-- @source     own: the host's launch calls limit the speed of eager decode steps
-- @needs      step
SELECT
    100.0 * COUNT(*) FILTER (graph_mode = 'none') / COUNT(*) AS value,
    NULL::BIGINT AS cost_ns,
    format(
        '{:,} of {:,} decode steps ran without a CUDA graph.', COUNT(*) FILTER (graph_mode = 'none'), COUNT(*)
    ) AS finding
FROM step
WHERE phase = 'decode' AND graph_mode IS NOT NULL
HAVING COUNT(*) > 0
