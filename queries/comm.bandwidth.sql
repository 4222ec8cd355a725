-- One row per operation, message size and link: bus bandwidth compared with the peak of the link.
--
-- Use it to see how much of the hardware's bandwidth the transfers reach. Small messages are bound
-- by latency and stay far below the peak.
--
-- busbw = bytes / transfer time x 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter
-- and all_to_all, and 1 for other operations, as nccl-tests defines it. Wait time is excluded. The
-- peak is that of the link that limits the communicator, in one direction (table link). Between
-- machines that is their network. Inside a machine it is NVLink if the topology in run.json, or
-- else the GPU's type, says so, and PCIe otherwise. It is NULL if the link is unknown.
--
-- Operations of unknown size are missing. traceql load --model-config config.json makes the size of
-- the all-reduces in layers known.
-- @column op              VARCHAR  Operation: all_reduce, all_gather, send ...
-- @column group_size      BIGINT   Ranks in the communicator.
-- @column bytes           BIGINT   Size of the whole buffer, bytes.
-- @column bytes_source    VARCHAR  Where bytes comes from: args, shapes or inferred.
-- @column calls           BIGINT   Matched operations of that size, counted on each rank.
-- @column transfer_p50_ns DOUBLE   Median transfer time, ns.
-- @column busbw_p50_gbps  DOUBLE   Median bus bandwidth, 1e9 bytes per second.
-- @column busbw_max_gbps  DOUBLE   Highest bus bandwidth, 1e9 bytes per second.
-- @column link            VARCHAR  Link that the bandwidth is compared with; NULL if unknown.
-- @column peak_gbps       DOUBLE   Peak of the link in one direction, 1e9 bytes per second.
-- @column link_source     VARCHAR  How the link is known, or what is missing to know it.
-- @column peak_pct        DOUBLE   busbw_p50 in percent of the peak.
-- @column reliable_pct    DOUBLE   Percent of the calls whose wait and transfer times exceed the uncertainty of the clocks.
-- @key    op bytes busbw_p50_gbps peak_pct calls transfer_p50_ns link group_size
-- @empty  no matched operation has a known size; load all ranks of the run, with --model-config if all-reduces are missing
-- @chart  point x=bytes y=busbw_p50_gbps color=op limits=peak_gbps,busbw_max_gbps
-- @title  Bus bandwidth by message size
SELECT
    collective.op, collective.group_size, collective.bytes, collective.bytes_source,
    COUNT(*) AS calls,
    quantile_cont(collective.transfer_ns, 0.5) AS transfer_p50_ns,
    quantile_cont(collective.busbw_gbps, 0.5) AS busbw_p50_gbps,
    MAX(collective.busbw_gbps) AS busbw_max_gbps,
    communicator_link.link,
    CAST(communicator_link.peak_gbps AS DOUBLE) AS peak_gbps,
    communicator_link.source AS link_source,
    100.0 * quantile_cont(collective.busbw_gbps, 0.5) / communicator_link.peak_gbps AS peak_pct,
    100.0 * COUNT(*) FILTER (collective.reliable) / COUNT(*) AS reliable_pct
FROM collective
LEFT JOIN communicator_link USING (communicator_id)
WHERE collective.busbw_gbps IS NOT NULL
GROUP BY
    collective.op, collective.group_size, collective.bytes, collective.bytes_source,
    communicator_link.link, communicator_link.peak_gbps, communicator_link.source
ORDER BY
    collective.op, collective.group_size, collective.bytes, collective.bytes_source,
    communicator_link.link, communicator_link.peak_gbps, communicator_link.source
