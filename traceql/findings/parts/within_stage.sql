-- One row per operation on one rank, if its wait time can be blamed on a rank.
--
-- Three kinds of operation are left out: transfers between pipeline stages, because they wait for
-- the pipeline and not for a late rank; the first operation of a communicator, because what came
-- before it was not recorded; and operations whose times are uncertain because of the clocks.
-- @needs  arrival, collective, hidden_operation, layout
SELECT
    collective.kernel_id,
    collective.communicator_id,
    collective.rank,
    collective.group_size,
    collective.wait_ns,
    collective.transfer_ns,
    GREATEST(collective.transfer_ns - hidden_operation.hidden_ns, 0) AS exposed_ns
FROM collective
INNER JOIN layout USING (rank)
INNER JOIN arrival USING (kernel_id)
INNER JOIN hidden_operation USING (kernel_id)
WHERE
    NOT arrival.is_first
    AND collective.uncertainty_ns <= collective.wait_ns + collective.transfer_ns
    AND collective.op NOT IN ('send', 'recv')
    AND (collective.op <> 'broadcast' OR COALESCE(layout.pp_size, 1) = 1)
