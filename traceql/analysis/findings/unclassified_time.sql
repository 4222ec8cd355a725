-- No rule classifies the kernels that take a part of the GPU time.
-- @title      unclassified time
-- @notable    1
-- @severe     10
-- @unit       % of GPU time
-- @evidence   kernels.top category='other'
-- @advice     Add rules for these kernels: traceql load --rules mine.csv.
-- @source     own: the limit of the ledger
-- @needs      kernel, wording
SELECT
    100.0 * SUM(dur) FILTER (category = 'other') / SUM(dur) AS value,
    SUM(dur) FILTER (category = 'other') AS cost_ns,
    format(
        'No rule classifies {:.1f} ms of {} time.',
        SUM(dur) FILTER (category = 'other') / 1e6,
        ANY_VALUE(wording.device)
    ) AS finding
FROM kernel
CROSS JOIN wording
