-- One row per communicator and rank: its wait time, transfer time and exposed transfer time.
-- @needs  within_stage
SELECT
    communicator_id, rank, group_size, SUM(wait_ns) AS wait_ns,
    SUM(transfer_ns) AS transfer_ns, SUM(exposed_ns) AS exposed_ns
FROM within_stage
GROUP BY communicator_id, rank, group_size
