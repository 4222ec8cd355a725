-- One row per rank, forward pass and model layer.
-- @kind   view
-- @scope  run
-- @needs  kernel, work_class
-- @column rank        BIGINT  Rank that ran it.
-- @column step_id     BIGINT  Step in which it was launched.
-- @column pass        BIGINT  Forward pass of the rank, from 0; NULL where modules alone tell the layer.
-- @column layer       BIGINT  Model layer, as in kernel.
-- @column ts          BIGINT  Start of its first kernel, ns since trace.base_time_ns.
-- @column dur         BIGINT  From there to the end of its last kernel, ns.
-- @column busy_ns     BIGINT  Union of its kernels, ns.
-- @column compute_ns  BIGINT  Union of its kernels that neither communicate nor copy, ns.
-- @column comm_ns     BIGINT  Union of its collectives while none of these runs, ns.
-- @column idle_ns     BIGINT  Rest of dur, ns.
WITH activity AS (
    SELECT
        rank,
        step_id,
        pass,
        layer,
        ts,
        ts + GREATEST(dur, 0) AS end_ts,
        work_class(category) AS class
    FROM kernel
    WHERE layer IS NOT NULL
),
-- What each kernel adds to the union of those before it: of all, of computing and communicating
-- ones, and of computing ones alone.
added AS (
    SELECT
        *,
        GREATEST(0, end_ts - GREATEST(ts, COALESCE(MAX(end_ts) OVER before, ts))) AS busy,
        CASE WHEN class <> 'copy' THEN GREATEST(
            0, end_ts - GREATEST(ts, COALESCE(MAX(end_ts) FILTER (class <> 'copy') OVER before, ts))
        ) ELSE 0 END AS active,
        CASE WHEN class = 'compute' THEN GREATEST(
            0, end_ts - GREATEST(ts, COALESCE(MAX(end_ts) FILTER (class = 'compute') OVER before, ts))
        ) ELSE 0 END AS compute
    FROM activity
    WINDOW before AS (
        PARTITION BY rank, step_id, pass, layer ORDER BY ts, end_ts
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT
    rank,
    step_id,
    pass,
    layer,
    MIN(ts) AS ts,
    MAX(end_ts) - MIN(ts) AS dur,
    CAST(SUM(busy) AS BIGINT) AS busy_ns,
    CAST(SUM(compute) AS BIGINT) AS compute_ns,
    CAST(SUM(active) - SUM(compute) AS BIGINT) AS comm_ns,
    MAX(end_ts) - MIN(ts) - CAST(SUM(busy) AS BIGINT) AS idle_ns
FROM added
GROUP BY rank, step_id, pass, layer
