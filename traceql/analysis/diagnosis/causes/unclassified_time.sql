-- No rule classifies kernels that take a part of the GPU time, so nothing can be said about them.
-- @title   unknown kernels
-- @group   recording
-- @most    notable
-- @query   kernels.top category='other'
-- @record  Record GPU kernels.
-- @source  the limit of the ledger: 1% of the kernel time
-- @needs   kernel_use
WITH summed AS (
    SELECT
        SUM(ns) AS ns,
        COALESCE(SUM(ns) FILTER (category = 'other'), 0) AS other_ns,
        COALESCE(SUM(kernels) FILTER (category = 'other'), 0) AS kernels
    FROM kernel_use
),
unknown AS (
    SELECT name, SUM(ns) AS ns FROM kernel_use
    WHERE category = 'other'
    GROUP BY name
),
largest AS (
    SELECT arg_max(name, (ns, name)) AS name, MAX(ns) AS ns, COUNT(*) AS names FROM unknown
)
SELECT
    CASE WHEN summed.ns IS NULL THEN NULL ELSE summed.other_ns > 0.01 * summed.ns END AS is_confirmed,
    CASE
        WHEN summed.ns IS NULL THEN 'no kernel was recorded'
        ELSE format('rules know kernels with {:.1f}% of the kernel time', 100 - 100 * summed.other_ns / summed.ns)
    END AS reason,
    format('No rule knows kernels that take {:.0f}% of the kernel time', 100 * summed.other_ns / NULLIF(summed.ns, 0)) AS headline,
    [
        format('{:,} kernels of {} names take {:.1f} ms on all ranks.', summed.kernels, largest.names, summed.other_ns / 1e6),
        format('The longest is {}: {:.0f}% of the kernel time.', largest.name[:80], 100 * largest.ns / NULLIF(summed.ns, 0))
    ] AS evidence,
    'traceql load TRACE --rules mine.csv (a row a pattern: priority,pattern,category)' AS remedy,
    NULL::VARCHAR AS unknowns,
    summed.other_ns > 0.1 * summed.ns AS is_notable
FROM summed
CROSS JOIN largest
