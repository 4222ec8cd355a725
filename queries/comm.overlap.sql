-- One row per rank: how much of its communication computing hides.
--
-- comm is the union of all kernels of category collective, over streams. A collective that waits
-- for another rank counts as communication here.
-- @column rank             BIGINT  Rank.
-- @column comm_ns          BIGINT  A collective ran, ns.
-- @column overlap_ns       BIGINT  A collective and computing ran at once, ns.
-- @column exposed_comm_ns  BIGINT  A collective ran and no computing, ns.
-- @column overlap_pct      DOUBLE  overlap in percent of comm; NULL without collectives.
-- @column window_ns        BIGINT  The rank's GPU span, ns.
-- @column exposed_pct      DOUBLE  exposed_comm in percent of the window.
-- @chart  stacked x=overlap_ns,exposed_comm_ns y=rank
WITH summed AS (
    SELECT
        rank,
        CAST(SUM(dur) AS BIGINT) AS window_ns,
        CAST(COALESCE(SUM(dur) FILTER (comm), 0) AS BIGINT) AS comm_ns,
        CAST(COALESCE(SUM(dur) FILTER (comm AND compute), 0) AS BIGINT) AS overlap_ns
    FROM device_state
    GROUP BY rank
)
SELECT
    rank,
    comm_ns,
    overlap_ns,
    comm_ns - overlap_ns AS exposed_comm_ns,
    100.0 * overlap_ns / NULLIF(comm_ns, 0) AS overlap_pct,
    window_ns,
    100.0 * (comm_ns - overlap_ns) / window_ns AS exposed_pct
FROM summed
ORDER BY rank
