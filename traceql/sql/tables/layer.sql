-- One row per layer of a forward pass on one device of a rank.
-- @schema main
-- @scope  run
-- @needs  collective_exposure, kernel
-- @column rank        BIGINT  Rank that ran it.
-- @column device      BIGINT  Number of the device on its machine; -1 if the file has none.
-- @column step_id     BIGINT  Step in which it was launched.
-- @column pass        BIGINT  Number of the forward pass on the rank, from 0.
-- @column layer       BIGINT  Model layer, numbered as in kernel.layer.
-- @column ts          BIGINT  Start of its first kernel, ns since the run's first event.
-- @column dur         BIGINT  From the start of its first kernel to the end of its last kernel, ns.
-- @column busy_ns     BIGINT  Part of dur in which any of its kernels ran, ns.
-- @column compute_ns  BIGINT  Part of dur in which one of its compute kernels ran, ns.
-- @column comm_ns     BIGINT  Part of dur in which one of its collectives ran, but none of its compute kernels, ns.
-- @column wait_ns     BIGINT  Part of comm_ns in which its collectives waited for a late rank and no compute kernel ran on the device, ns; NULL if none of its collectives was matched on all its ranks.
-- @column idle_ns     BIGINT  Part of dur in which none of its kernels ran, ns.
WITH activity AS (
    SELECT
        rank, device, step_id, pass, layer, ts,
        ts + GREATEST(dur, 0) AS end_ts,
        CASE
            WHEN category = 'collective' THEN 'comm'
            WHEN category IN ('memcpy', 'memset') THEN 'copy'
            ELSE 'compute'
        END AS class,
        CASE WHEN category = 'collective' THEN collective_exposure.exposed_wait_ns ELSE 0 END AS wait_ns
    FROM kernel
    LEFT JOIN collective_exposure ON kernel.id = collective_exposure.kernel_id
    WHERE layer IS NOT NULL
),
-- What each kernel adds to the union of those before it: to the union of all kernels, to that of
-- compute and communication kernels, and to that of compute kernels alone.
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
        PARTITION BY rank, device, step_id, pass, layer ORDER BY ts, end_ts
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
)
SELECT
    rank, device, step_id, pass, layer,
    MIN(ts) AS ts,
    MAX(end_ts) - MIN(ts) AS dur,
    CAST(SUM(busy) AS BIGINT) AS busy_ns,
    CAST(SUM(compute) AS BIGINT) AS compute_ns,
    CAST(SUM(active) - SUM(compute) AS BIGINT) AS comm_ns,
    CAST(CASE
        WHEN COUNT(*) FILTER (class = 'comm') > 0 THEN SUM(wait_ns) FILTER (class = 'comm')
        ELSE 0
    END AS BIGINT) AS wait_ns,
    MAX(end_ts) - MIN(ts) - CAST(SUM(busy) AS BIGINT) AS idle_ns
FROM added
GROUP BY rank, device, step_id, pass, layer
ORDER BY rank, step_id, pass, layer, device
