-- What each rank did between one operation of a group and the next: why it came when it came.

CREATE OR REPLACE TABLE arrival AS
SELECT
    collective.match_id,
    kernel.rank,
    kernel.id AS kernel_id,
    kernel.step_id,
    collective.late_ns,
    -- Of two that came at the same time, one.
    ROW_NUMBER() OVER (
        PARTITION BY collective.match_id ORDER BY collective.late_ns DESC, kernel.rank
    ) = 1 AND collective.late_ns > 0 AS is_last,
    (SUM(collective.wait_ns) OVER operation)::BIGINT AS waited_ns,
    kernel.ts - spent.since_ts AS since_ns,
    spent.compute_ns,
    spent.copy_ns,
    spent.host_ns,
    spent.comm_ns,
    spent.other_ns,
    spent.side_ns,
    BOOL_OR(spent.is_first) OVER operation AS is_first
FROM spent
INNER JOIN collective USING (kernel_id)
INNER JOIN kernel ON spent.kernel_id = kernel.id
WINDOW operation AS (PARTITION BY collective.match_id)
ORDER BY collective.match_id, kernel.rank;

DROP TABLE spent;

COMMENT ON TABLE arrival IS
    'One row per rank of a matched operation: when it came, and what its GPU did since the operation of the same group before.';
COMMENT ON COLUMN arrival.match_id IS 'Operation; as in collective.';
COMMENT ON COLUMN arrival.rank IS 'Rank.';
COMMENT ON COLUMN arrival.kernel_id IS 'Row of kernel.';
COMMENT ON COLUMN arrival.step_id IS 'Step of the kernel.';
COMMENT ON COLUMN arrival.late_ns IS 'Start after that of the first rank, by one clock, ns.';
COMMENT ON COLUMN arrival.is_last IS 'Whether the others waited for this rank.';
COMMENT ON COLUMN arrival.waited_ns IS 'Waiting of all ranks for this operation together, ns.';
COMMENT ON COLUMN arrival.since_ns IS 'From the end of the operation before to the start of this one, ns; the other times add up to it.';
COMMENT ON COLUMN arrival.compute_ns IS 'Of these, a kernel ran that neither communicates nor copies.';
COMMENT ON COLUMN arrival.copy_ns IS 'Of these, nothing but copies ran.';
COMMENT ON COLUMN arrival.host_ns IS 'Of these, the GPU had nothing because the host had issued nothing (gap causes host and sync).';
COMMENT ON COLUMN arrival.comm_ns IS 'Of these, only operations of other groups ran.';
COMMENT ON COLUMN arrival.other_ns IS 'Of these, the rest: gaps of other causes.';
COMMENT ON COLUMN arrival.side_ns IS 'Summed duration of computing kernels that began meanwhile on other streams than the one that computes most, ns.';

COMMENT ON COLUMN arrival.is_first IS 'Whether a rank has no operation of the group before it: what kept it is not recorded.';

CREATE OR REPLACE VIEW straggler AS
WITH excess AS (
    SELECT
        late.match_id,
        late.rank,
        late.kernel_id,
        late.step_id,
        late.late_ns,
        late.waited_ns,
        late.is_first,
        ANY_VALUE(late.host_ns) - MEDIAN(other.host_ns) AS host_ns,
        ANY_VALUE(late.compute_ns) - MEDIAN(other.compute_ns) AS compute_ns,
        ANY_VALUE(late.copy_ns) - MEDIAN(other.copy_ns) AS copy_ns,
        ANY_VALUE(late.comm_ns) - MEDIAN(other.comm_ns) AS comm_ns,
        ANY_VALUE(late.other_ns) - MEDIAN(other.other_ns) AS other_ns,
        ANY_VALUE(late.side_ns) - MEDIAN(other.side_ns) AS side_ns
    FROM arrival AS late
    INNER JOIN arrival AS other ON late.match_id = other.match_id AND late.rank <> other.rank
    WHERE late.is_last
    GROUP BY
        late.match_id, late.rank, late.kernel_id, late.step_id, late.late_ns, late.waited_ns,
        late.is_first
)
SELECT
    match_id,
    rank,
    kernel_id,
    step_id,
    late_ns,
    waited_ns,
    CASE
        WHEN is_first THEN 'start'
        ELSE
            CASE GREATEST(host_ns, compute_ns, copy_ns, comm_ns, other_ns, 0)
                WHEN 0 THEN 'unknown'
                WHEN host_ns THEN 'host'
                WHEN compute_ns
                    THEN CASE WHEN 2 * side_ns >= compute_ns THEN 'preemption' ELSE 'kernel' END
                WHEN copy_ns THEN 'copy'
                WHEN comm_ns THEN 'communication'
                ELSE 'launch'
            END
    END AS cause,
    CAST(GREATEST(host_ns, compute_ns, copy_ns, comm_ns, other_ns, 0) AS BIGINT) AS excess_ns
FROM excess;

COMMENT ON VIEW straggler IS 'One row per operation that ranks waited for: who came last, and why.';
COMMENT ON COLUMN straggler.match_id IS 'Operation; as in collective.';
COMMENT ON COLUMN straggler.rank IS 'Rank that came last.';
COMMENT ON COLUMN straggler.kernel_id IS 'Row of kernel, of that rank.';
COMMENT ON COLUMN straggler.step_id IS 'Step, of that rank.';
COMMENT ON COLUMN straggler.late_ns IS 'Start after that of the first rank, ns.';
COMMENT ON COLUMN straggler.waited_ns IS 'Waiting of all ranks together, ns.';
COMMENT ON COLUMN straggler.cause IS
    'What the late rank did more of than the median of the others, since the operation before: host (its host had issued nothing), kernel (computing took longer), preemption (kernels of other streams account for half of that), copy, communication (of other groups), launch (gaps of other causes), unknown; start for the first operation of the recording.';
COMMENT ON COLUMN straggler.excess_ns IS 'How much more of it, ns.';
