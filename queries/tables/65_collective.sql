-- Operations of single ranks become operations of their groups: the same unit, the same key, the
-- same place among equals. What does not fit together stays unmatched; nothing is forced.

CREATE OR REPLACE TABLE collective AS
WITH on_one_clock AS (
    SELECT
        operation.*,
        paired.group_id,
        paired.unit AS shared_unit,
        operation.ts - clock.offset_ns
        - CAST(round(clock.drift * (operation.ts - clock.at_ns)) AS BIGINT) AS aligned_ts,
        operation.end_ts - clock.offset_ns
        - CAST(round(clock.drift * (operation.end_ts - clock.at_ns)) AS BIGINT) AS aligned_end_ts,
        clock.residual_ns,
        clock.compared_with
    FROM operation
    INNER JOIN paired USING (kernel_id)
    INNER JOIN clock USING (rank)
),
placed AS (
    SELECT
        *,
        ROW_NUMBER() OVER equal_ones AS place,
        COUNT(*) OVER (PARTITION BY group_id, shared_unit, key, rank) AS calls
    FROM on_one_clock
    WHERE shared_unit >= 0
    WINDOW equal_ones AS (PARTITION BY group_id, shared_unit, key, rank ORDER BY ts, kernel_id)
),
-- Where a rank did more of them than another, none can be told from the others.
fitting AS (
    SELECT
        group_id,
        shared_unit,
        key,
        place,
        ROW_NUMBER() OVER (ORDER BY MIN(aligned_ts), group_id, shared_unit, key, place) - 1 AS match_id,
        COUNT(*) AS ranks,
        MAX(aligned_ts) AS arrival_ts,
        MIN(aligned_ts) AS first_ts,
        -- Unknown where the ranks' clocks were never compared.
        CASE WHEN MIN(compared_with) = MAX(compared_with) THEN MAX(residual_ns) END AS uncertainty_ns
    FROM placed
    GROUP BY group_id, shared_unit, key, place
    HAVING
        COUNT(*) > 1
        AND MIN(calls) = MAX(calls)
        AND (
            NOT BOOL_AND(synchronising)
            OR MAX(aligned_ts) <= MIN(aligned_end_ts) + 5000 + 2 * MAX(residual_ns)
        )
),
matched AS (
    SELECT
        placed.kernel_id,
        placed.aligned_ts,
        placed.aligned_end_ts,
        fitting.match_id,
        fitting.ranks,
        fitting.arrival_ts,
        fitting.first_ts,
        fitting.uncertainty_ns
    FROM placed
    INNER JOIN fitting USING (group_id, shared_unit, key, place)
),
timed AS (
    SELECT
        operation.kernel_id,
        operation.rank,
        operation.op,
        communication_group.ranks AS group_ranks,
        communication_group.size AS group_size,
        matched.match_id,
        matched.ranks AS ranks_found,
        operation.end_ts - operation.ts AS dur,
        CASE
            WHEN operation.bytes_source = 'shapes' AND operation.op = 'all_gather'
                THEN operation.bytes * communication_group.size
            ELSE operation.bytes
        END AS bytes,
        operation.bytes_source,
        matched.uncertainty_ns,
        CASE WHEN matched.ranks = communication_group.size THEN matched.aligned_ts - matched.first_ts END AS late_ns,
        CASE
            WHEN matched.ranks = communication_group.size THEN LEAST(
                operation.end_ts - operation.ts, matched.arrival_ts - matched.aligned_ts
            )
        END AS wait_ns
    FROM operation
    INNER JOIN paired USING (kernel_id)
    INNER JOIN communication_group USING (group_id)
    LEFT JOIN matched USING (kernel_id)
),
moved AS (
    SELECT *, dur - wait_ns AS transfer_ns, bytes / NULLIF(dur - wait_ns, 0) AS algbw_gbps
    FROM timed
)
SELECT
    ROW_NUMBER() OVER (ORDER BY kernel_id) - 1 AS id,
    match_id,
    rank,
    kernel_id,
    op,
    group_ranks,
    group_size,
    ranks_found,
    bytes,
    bytes_source,
    late_ns,
    wait_ns,
    transfer_ns,
    algbw_gbps,
    algbw_gbps * CASE
        WHEN op = 'all_reduce' THEN 2.0 * (group_size - 1) / group_size
        WHEN op IN ('all_gather', 'reduce_scatter', 'all_to_all')
            THEN 1.0 * (group_size - 1) / group_size
        WHEN op IN ('broadcast', 'reduce', 'send', 'recv') THEN 1.0
    END AS busbw_gbps,
    CASE WHEN wait_ns IS NOT NULL THEN uncertainty_ns END AS uncertainty_ns,
    -- A clock error moves time from one to the other: both must be larger than it.
    uncertainty_ns = 0
    OR (uncertainty_ns <= transfer_ns AND (wait_ns = 0 OR uncertainty_ns <= wait_ns)) AS reliable
FROM moved
ORDER BY kernel_id;

COMMENT ON TABLE collective IS 'One row per collective or point-to-point operation on one rank.';
COMMENT ON COLUMN collective.id IS 'Row of this table.';
COMMENT ON COLUMN collective.match_id IS 'The same on every rank of one operation; NULL where it was not found on another rank.';
COMMENT ON COLUMN collective.rank IS 'Rank.';
COMMENT ON COLUMN collective.kernel_id IS 'Row of kernel that carried it out.';
COMMENT ON COLUMN collective.op IS
    'all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, reduce, gather, scatter, send, recv, barrier or other.';
COMMENT ON COLUMN collective.group_ranks IS 'Ranks that take part, of those that were loaded or that the event names; "0 to 1" where data goes one way.';
COMMENT ON COLUMN collective.group_size IS 'Ranks that take part, loaded or not.';
COMMENT ON COLUMN collective.ranks_found IS 'Ranks on which it was found; NULL where not matched.';
COMMENT ON COLUMN collective.bytes IS 'Size of the whole buffer, bytes; NULL where neither told nor inferred.';
COMMENT ON COLUMN collective.bytes_source IS
    'args: the event''s own. shapes: of the launching operator. inferred: tokens x hidden size x element size.';
COMMENT ON COLUMN collective.late_ns IS 'Start after that of the first rank, ns; NULL where a rank is missing.';
COMMENT ON COLUMN collective.wait_ns IS 'Waiting for the last rank to begin, ns; NULL where a rank is missing.';
COMMENT ON COLUMN collective.transfer_ns IS 'Rest of the kernel''s dur, ns.';
COMMENT ON COLUMN collective.algbw_gbps IS 'bytes / transfer_ns, 1e9 bytes per second.';
COMMENT ON COLUMN collective.busbw_gbps IS
    'algbw x 2(n-1)/n for all_reduce, (n-1)/n for all_gather, reduce_scatter and all_to_all, 1 for broadcast, reduce, send and recv, 1e9 bytes per second.';
COMMENT ON COLUMN collective.uncertainty_ns IS 'How far the clocks of the ranks may differ still, ns; 0 where they share one, NULL where they could not be compared.';
COMMENT ON COLUMN collective.reliable IS 'Whether wait and transfer are both larger than the uncertainty; NULL where that is not known.';

COMMENT ON TABLE clock IS 'One row per rank: how its clock runs against another rank''s. Times of other tables are by the rank''s own clock.';
COMMENT ON COLUMN clock.compared_with IS 'The rank whose clock this one is set by: the first that collectives lead to.';
COMMENT ON COLUMN clock.rank IS 'Rank.';
COMMENT ON COLUMN clock.offset_ns IS 'Ahead of that rank''s at at_ns, ns: time by that rank''s clock = ts - offset_ns - drift x (ts - at_ns).';
COMMENT ON COLUMN clock.drift IS 'How much more it gets ahead, ns per ns.';
COMMENT ON COLUMN clock.at_ns IS 'When offset_ns holds, ns since trace.base_time_ns.';
COMMENT ON COLUMN clock.residual_ns IS 'What 9 of 10 ends of operations differ by after that, ns; of a shared clock what ends differ by, where that is more than 2 us, else 0.';
COMMENT ON COLUMN clock.measured_ns IS 'Ends of operations on this rank after those on the rank that it was compared with, median, ns.';
COMMENT ON COLUMN clock.operations IS 'Operations that it was measured with.';
COMMENT ON COLUMN clock.source IS 'reference, shared (ends agree), or ends of operations.';

COMMENT ON TABLE layout IS 'One row per rank: its place in each kind of parallelism.';
COMMENT ON COLUMN layout.rank IS 'Rank.';
COMMENT ON COLUMN layout.tp_rank IS 'Tensor-parallel rank; NULL where the kind of parallelism is not known.';
COMMENT ON COLUMN layout.pp_rank IS 'Pipeline stage; NULL where it is not known.';
COMMENT ON COLUMN layout.dp_rank IS 'Data-parallel replica; NULL where the kind of parallelism is not known.';
COMMENT ON COLUMN layout.tp_size IS 'Tensor-parallel ranks, loaded or not; NULL as tp_rank.';
COMMENT ON COLUMN layout.pp_size IS 'Pipeline stages; NULL as pp_rank.';
COMMENT ON COLUMN layout.dp_size IS 'Data-parallel replicas; NULL as dp_rank.';
COMMENT ON COLUMN layout.source IS
    'run.json, file names, descriptions of process groups, process groups of distributedInfo, pattern of operations, or ranks of the run; and whether the kind of parallelism is unknown.';

DROP TABLE operation;
DROP TABLE paired;
DROP TABLE communication_group;
