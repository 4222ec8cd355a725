-- What each rank did between one operation of a group and the next: why it came when it came.

CREATE OR REPLACE TEMP TABLE segment AS
WITH every_operation AS (
    SELECT
        collective.kernel_id,
        collective.match_id,
        collective.group_ranks,
        collective.late_ns,
        collective.wait_ns,
        kernel.rank,
        kernel.device,
        kernel.ts,
        kernel.step_id,
        LAG(kernel.ts + kernel.dur) OVER (
            PARTITION BY collective.rank, collective.group_ranks ORDER BY kernel.ts, kernel.id
        ) AS previous_end_ts
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
),
operation AS (
    FROM every_operation WHERE wait_ns IS NOT NULL
)
-- From the end of the operation before, or the beginning of the rank's GPU span.
SELECT
    operation.*,
    LEAST(COALESCE(operation.previous_end_ts, span.ts), operation.ts) AS since_ts
FROM operation
INNER JOIN (SELECT rank, MIN(ts) AS ts FROM device_state GROUP BY rank) AS span USING (rank);

CREATE OR REPLACE TABLE arrival AS
WITH place AS (
    SELECT DISTINCT rank, device, group_ranks FROM segment
),
-- An operation begins and ends where the state of its device changes: each state is in one segment
-- of a group, or in none.
state AS (
    SELECT
        device_state.rank,
        device_state.device,
        place.group_ranks,
        device_state.ts,
        device_state.dur,
        CASE
            WHEN device_state.compute THEN 'compute'
            WHEN device_state.comm THEN 'comm'
            WHEN device_state.copy THEN 'copy'
            WHEN gap.cause IN ('host', 'sync') THEN 'host'
            ELSE 'other'
        END AS what
    FROM device_state
    INNER JOIN place USING (rank, device)
    LEFT JOIN gap USING (rank, device, ts)
),
spent AS (
    SELECT
        segment.kernel_id,
        COALESCE(SUM(state.dur) FILTER (state.what = 'compute'), 0)::BIGINT AS compute_ns,
        COALESCE(SUM(state.dur) FILTER (state.what = 'copy'), 0)::BIGINT AS copy_ns,
        COALESCE(SUM(state.dur) FILTER (state.what = 'host'), 0)::BIGINT AS host_ns,
        COALESCE(SUM(state.dur) FILTER (state.what = 'comm'), 0)::BIGINT AS comm_ns,
        COALESCE(SUM(state.dur) FILTER (state.what = 'other'), 0)::BIGINT AS other_ns
    FROM state
    ASOF INNER JOIN segment
        ON state.rank = segment.rank
        AND state.device = segment.device
        AND state.group_ranks = segment.group_ranks
        AND state.ts < segment.ts
    WHERE state.ts >= segment.since_ts
    GROUP BY segment.kernel_id
),
-- Kernels beside those of the stream that computes most.
stream_time AS (
    SELECT rank, device, stream, SUM(dur) AS ns
    FROM kernel
    WHERE category NOT IN ('collective', 'memcpy', 'memset')
    GROUP BY rank, device, stream
),
side_kernel AS (
    SELECT kernel.rank, kernel.device, place.group_ranks, kernel.ts, kernel.dur
    FROM kernel
    INNER JOIN place USING (rank, device)
    INNER JOIN (
        FROM stream_time QUALIFY ns < MAX(ns) OVER (PARTITION BY rank, device)
    ) AS side USING (rank, device, stream)
    WHERE kernel.category NOT IN ('collective', 'memcpy', 'memset')
),
beside AS (
    SELECT segment.kernel_id, SUM(side_kernel.dur)::BIGINT AS side_ns
    FROM side_kernel
    ASOF INNER JOIN segment
        ON side_kernel.rank = segment.rank
        AND side_kernel.device = segment.device
        AND side_kernel.group_ranks = segment.group_ranks
        AND side_kernel.ts < segment.ts
    WHERE side_kernel.ts >= segment.since_ts
    GROUP BY segment.kernel_id
)
SELECT
    segment.match_id,
    segment.rank,
    segment.kernel_id,
    segment.step_id,
    segment.late_ns,
    segment.late_ns = MAX(segment.late_ns) OVER operation AND segment.late_ns > 0 AS is_last,
    (SUM(segment.wait_ns) OVER operation)::BIGINT AS waited_ns,
    segment.ts - segment.since_ts AS since_ns,
    COALESCE(spent.compute_ns, 0) AS compute_ns,
    COALESCE(spent.copy_ns, 0) AS copy_ns,
    COALESCE(spent.host_ns, 0) AS host_ns,
    COALESCE(spent.comm_ns, 0) AS comm_ns,
    COALESCE(spent.other_ns, 0) AS other_ns,
    COALESCE(beside.side_ns, 0) AS side_ns,
    BOOL_OR(segment.previous_end_ts IS NULL) OVER operation AS is_first
FROM segment
LEFT JOIN spent USING (kernel_id)
LEFT JOIN beside USING (kernel_id)
WINDOW operation AS (PARTITION BY segment.match_id)
ORDER BY segment.match_id, segment.rank;

DROP TABLE segment;

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
