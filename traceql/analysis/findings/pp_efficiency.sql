-- The stages of a pipeline compute for only a small part of their span.
-- @title      PP efficiency
-- @notable    40
-- @severe     60
-- @unit       % of the run lost
-- @evidence   pp.bubble
-- @advice     Keep more batches in flight, or balance the stages so that they take equal time.
-- @source     rule of thumb: above 60% of compute time is good, below 40% is poor
-- @needs      device_timeline, layout, rank_window
WITH computed AS (
    SELECT rank, SUM(dur) AS ns FROM device_timeline WHERE part = 'computing' GROUP BY rank
),
pipeline AS (
    SELECT
        MAX(layout.pp_size) AS stages,
        AVG(100.0 * (1 - COALESCE(computed.ns, 0) / rank_window.ns)) AS lost_pct,
        SUM(rank_window.ns - COALESCE(computed.ns, 0)) AS lost_ns
    FROM layout
    INNER JOIN rank_window USING (rank)
    LEFT JOIN computed USING (rank)
    HAVING MAX(layout.pp_size) > 1
)
SELECT
    lost_pct AS value,
    lost_ns AS cost_ns,
    format(
        'A pipeline of {} stages: each stage computes for only {:.0f}% of its span.', stages, 100 - lost_pct
    ) AS finding
FROM pipeline
