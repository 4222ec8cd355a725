-- One row per point, metric and statistic: the median of its repeats, and how sure it is.
--
-- The interval is that of order statistics of the median: from the k-th lowest repeat to the k-th
-- highest, with the greatest k whose coverage is 95% or more. Fewer than six repeats cannot reach
-- that: then it is from the lowest to the highest one, and coverage_pct is its confidence: 93.75%
-- of five repeats, 75% of three.
-- Source: H. A. David and H. N. Nagaraja, Order Statistics, 2003, section 7.1.
-- @column point_id      BIGINT   Point.
-- @column metric        VARCHAR  As in measurement.
-- @column stat          VARCHAR  As in measurement.
-- @column unit          VARCHAR  As in measurement.
-- @column repeats       BIGINT   Repeats with the number, without the one under the profiler.
-- @column median        DOUBLE   Their median.
-- @column low           DOUBLE   Lower end of the interval; NULL of one repeat.
-- @column high          DOUBLE   Upper end of the interval.
-- @column coverage_pct  DOUBLE   Probability that such an interval contains the median of all possible repeats, percent.
-- @column spread_pct    DOUBLE   From the lowest to the highest repeat, percent of the median; NULL of one repeat.
WITH sorted AS (
    SELECT
        measurement.point_id, measurement.metric, measurement.stat,
        ANY_VALUE(measurement.unit) AS unit,
        COUNT(*) AS repeats,
        quantile_cont(measurement.value, 0.5) AS median,
        LIST(measurement.value ORDER BY measurement.value) AS own
    FROM measurement
    INNER JOIN repeat USING (repeat_id)
    WHERE repeat.number > 0
    GROUP BY ALL
)
SELECT
    sorted.point_id, sorted.metric, sorted.stat, sorted.unit, sorted.repeats, sorted.median,
    CASE WHEN sorted.repeats > 1 THEN sorted.own[median_place.place] END AS low,
    CASE WHEN sorted.repeats > 1 THEN sorted.own[sorted.repeats + 1 - median_place.place] END AS high,
    CASE WHEN sorted.repeats > 1 THEN 100 * median_place.coverage END AS coverage_pct,
    CASE
        WHEN sorted.repeats > 1
            THEN 100.0 * (sorted.own[-1] - sorted.own[1]) / NULLIF(ABS(sorted.median), 0)
    END AS spread_pct
FROM sorted
INNER JOIN median_place USING (repeats)
ORDER BY ALL
