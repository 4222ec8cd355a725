-- One row per operation, message size and link: bus bandwidth, against the peak of the link.
--
-- busbw = bytes / transfer x 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter and
-- all_to_all, 1 for the others, as nccl-tests defines it. Waiting is not in it. The peak is that of
-- the link that bounds the group, in one direction (queries/rules/links.csv): between hosts their
-- network, inside a host NVLink where the topology in run.json, or else the GPU's kind, says so, and
-- PCIe where it does not. NULL where that is not known.
-- @column op              VARCHAR  Operation.
-- @column group_size      BIGINT   Ranks.
-- @column bytes           BIGINT   Size of the whole buffer, bytes.
-- @column bytes_source    VARCHAR  args, shapes or inferred.
-- @column calls           BIGINT   Matched operations of that size, counted on each rank.
-- @column transfer_p50_ns DOUBLE   Median transfer, ns.
-- @column busbw_p50_gbps  DOUBLE   Median bus bandwidth, 1e9 bytes per second.
-- @column busbw_max_gbps  DOUBLE   Highest.
-- @column link            VARCHAR  The link whose peak this is compared with.
-- @column peak_gbps       DOUBLE   Its peak in one direction, 1e9 bytes per second.
-- @column link_source     VARCHAR  How the link is known, or what is not.
-- @column peak_pct        DOUBLE   busbw_p50 in percent of the peak.
-- @column reliable_pct    DOUBLE   Percent of the calls whose times exceed the clocks' uncertainty.
-- @chart  point x=bytes y=busbw_p50_gbps color=op
-- @title  Bus bandwidth against message size
SELECT
    collective.op,
    collective.group_size,
    collective.bytes,
    collective.bytes_source,
    COUNT(*) AS calls,
    quantile_cont(collective.transfer_ns, 0.5) AS transfer_p50_ns,
    quantile_cont(collective.busbw_gbps, 0.5) AS busbw_p50_gbps,
    MAX(collective.busbw_gbps) AS busbw_max_gbps,
    group_link.link,
    CAST(group_link.peak_gbps AS DOUBLE) AS peak_gbps,
    group_link.source AS link_source,
    100.0 * quantile_cont(collective.busbw_gbps, 0.5) / group_link.peak_gbps AS peak_pct,
    100.0 * COUNT(*) FILTER (collective.reliable) / COUNT(*) AS reliable_pct
FROM collective
LEFT JOIN group_link USING (communicator_id)
WHERE collective.busbw_gbps IS NOT NULL
GROUP BY
    collective.op, collective.group_size, collective.bytes, collective.bytes_source,
    group_link.link, group_link.peak_gbps, group_link.source
ORDER BY
    collective.op, collective.group_size, collective.bytes, collective.bytes_source,
    group_link.link, group_link.peak_gbps, group_link.source
