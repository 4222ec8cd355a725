-- Large messages reach only a small part of the peak bandwidth of their link.
-- @title      link use
-- @notable    50
-- @severe     70
-- @unit       % of the peak unused
-- @threshold  least_bytes = 16777216  Size from which a message should use a link fully: 16 MiB.
-- @evidence   comm.bandwidth
-- @advice     Check the algorithm and protocol of the communication library (NCCL, RCCL or HCCL), and the topology (is traffic routed over PCIe?).
-- @advice     Send larger messages.
-- @source     rule of thumb: above 50% of the peak is good, below 30% is poor
-- @needs      collective, communicator_link, finding_rule
WITH large_messages AS (
    SELECT
        collective.op, communicator_link.link, communicator_link.peak_gbps,
        quantile_cont(collective.busbw_gbps, 0.5) AS busbw_gbps,
        MIN(collective.bytes) AS bytes,
        SUM(collective.transfer_ns) AS transfer_ns
    FROM collective
    INNER JOIN communicator_link USING (communicator_id)
    CROSS JOIN (SELECT thresholds FROM finding_rule WHERE finding = 'link use') AS rule
    WHERE
        collective.bytes >= rule.thresholds['least_bytes']
        AND collective.reliable
        AND communicator_link.peak_gbps IS NOT NULL
        AND collective.op NOT IN ('send', 'recv', 'broadcast')
    GROUP BY collective.op, communicator_link.link, communicator_link.peak_gbps
)
SELECT
    100.0 * (1 - busbw_gbps / peak_gbps) AS value,
    transfer_ns AS cost_ns,
    format(
        '{} of {:.0f} MiB and more reaches {:.0f} GB/s bus bandwidth, {:.0f}% of {} ({:.0f} GB/s).',
        op, bytes / 1048576, busbw_gbps, 100.0 * busbw_gbps / peak_gbps, link, peak_gbps
    ) AS finding
FROM large_messages
