-- Exposed transfers take a large part of the run.
-- @title      communication
-- @notable    30
-- @severe     50
-- @unit       % of the run
-- @evidence   comm.summary
-- @advice     Use fewer ranks per communicator, larger batches, or a fused all-reduce.
-- @advice     This number does not include wait time.
-- @source     rule of thumb: communication should take less than 30% of a step
-- @needs      attended, run_window
WITH moving AS (
    SELECT SUM(attended.exposed_ns) AS all_ns, SUM(attended.exposed_ns) / ANY_VALUE(run_window.ranks) AS ns
    FROM attended
    CROSS JOIN run_window
    HAVING COUNT(*) > 0
)
SELECT
    100.0 * moving.ns / run_window.ns AS value,
    moving.all_ns AS cost_ns,
    format(
        'Exposed transfers in collectives take {:.1f} ms per rank, {:.0f}% of the run. Wait time is not included.',
        moving.ns / 1e6, 100.0 * moving.ns / run_window.ns
    ) AS finding
FROM moving
CROSS JOIN run_window
