-- One row per operation that ranks waited for: which rank was late, and why.
-- @scope  run
-- @needs  collective_arrival, host_clock, launch, unrecorded_launch
-- @column match_id   BIGINT   Operation; the same number as in collective.
-- @column rank       BIGINT   The late rank (the rank that the others waited for).
-- @column kernel_id  BIGINT   Kernel of the operation on the late rank (kernel.id).
-- @column step_id    BIGINT   Step of that kernel; NULL if unknown.
-- @column late_ns    BIGINT   How much later the late rank began than the earliest rank, ns.
-- @column wait_ns    BIGINT   Wait time of all ranks together, ns.
-- @column cause      VARCHAR  What the GPU of the late rank spent more time on than the median of the other ranks, since the previous operation of the communicator: host (idle because its host had launched nothing), kernel (compute kernels), preemption (compute kernels, half of it or more on other streams than the one with the most compute time), copy (only copies), communication (operations of other communicators), launch (idle for other causes) or unknown (none of these, or records of its kernels are missing, or it was idle and its clocks of host and GPU do not agree or its launch calls were not recorded); start if it is the first operation of the communicator in the trace.
-- @column excess_ns  BIGINT   How much more time than that median the late rank spent on the cause, ns.
WITH excess AS (
    SELECT
        late.match_id, late.rank, late.kernel_id, late.step_id, late.late_ns, late.wait_ns,
        late.is_first,
        ANY_VALUE(late.host_ns) - MEDIAN(other.host_ns) AS host_ns,
        ANY_VALUE(late.compute_ns) - MEDIAN(other.compute_ns) AS compute_ns,
        ANY_VALUE(late.copy_ns) - MEDIAN(other.copy_ns) AS copy_ns,
        ANY_VALUE(late.comm_ns) - MEDIAN(other.comm_ns) AS comm_ns,
        ANY_VALUE(late.other_ns) - MEDIAN(other.other_ns) AS other_ns,
        ANY_VALUE(late.side_ns) - MEDIAN(other.side_ns) AS side_ns
    FROM collective_arrival AS late
    INNER JOIN collective_arrival AS other ON late.match_id = other.match_id AND late.rank <> other.rank
    WHERE late.is_last
    GROUP BY
        late.match_id, late.rank, late.kernel_id, late.step_id, late.late_ns, late.wait_ns,
        late.is_first
)
SELECT
    match_id, rank, kernel_id, step_id, late_ns, wait_ns,
    CASE
        WHEN is_first THEN 'start'
        WHEN rank IN (SELECT rank FROM unrecorded_launch WHERE reason = 'lost') THEN 'unknown'
        ELSE
            CASE GREATEST(host_ns, compute_ns, copy_ns, comm_ns, other_ns, 0)
                WHEN 0 THEN 'unknown'
                WHEN host_ns THEN 'host'
                WHEN compute_ns
                    THEN CASE WHEN 2 * side_ns >= compute_ns THEN 'preemption' ELSE 'kernel' END
                WHEN copy_ns THEN 'copy'
                WHEN comm_ns THEN 'communication'
                ELSE
                    CASE
                        WHEN rank IN (SELECT rank FROM host_clock WHERE NOT agrees) THEN 'unknown'
                        WHEN rank NOT IN (SELECT rank FROM launch) THEN 'unknown'
                        ELSE 'launch'
                    END
            END
    END AS cause,
    CAST(GREATEST(host_ns, compute_ns, copy_ns, comm_ns, other_ns, 0) AS BIGINT) AS excess_ns
FROM excess
ORDER BY match_id
