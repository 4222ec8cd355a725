-- One row per phase, kind of segment and rank: what steps spend their critical path on; or one row per step, segment and rank.
--
-- Use it to see what set the length of a step: which rank, and whether its host, its kernels or the
-- transfers. An operation transfers data only after the late rank has begun it; until then, the other
-- ranks wait. So the critical path of a step is what the late rank of each operation did before it
-- began the operation, one operation after the other, plus the transfers.
--
-- The length of a step runs from the end of the communicator's last operation in the previous step
-- to the end of its last operation in this one, on the requested rank. The first step begins with
-- the late rank's first kernel; that of each window of an excerpt, with the window. The segments of a step add up to its length. The communicator is the
-- one with the most operations on the rank. What runs after its last operation, such as the sampler,
-- belongs to the next step. Without operations that were matched on all ranks, the segments are the
-- rank's own time, from the end of the previous step on the GPU.
--
-- Kinds of segments:
--
-- - host: the late rank's GPU was idle because its host had launched nothing
-- - launch: the GPU was idle for another reason
-- - kernel: a compute kernel ran
-- - copy: only copies ran
-- - transfer: the operations of the communicator transferred data, on all ranks
-- - communication: the late rank communicated in another communicator
-- - skew: the difference between the ranks at the ends of operations
--
-- If the late rank waited in another communicator, such as in a receive from another pipeline stage,
-- and no compute kernel ran, the path continues on the rank that it waited for, and so on.
-- @param  by           VARCHAR = 'phase'  One row per phase (all its steps together), or per step; of each segment and rank.
-- @param  rank         BIGINT  = 0     Rank whose steps to show; ignored if step is given.
-- @param  phase        VARCHAR = NULL  Only steps of this phase; all by default.
-- @param  step         BIGINT  = NULL  One step only (step_id, as steps.timeline lists it), as if by were step; all by default.
-- @param  limit        INTEGER = 1000  Maximum number of rows.
-- @values by           phase step
-- @values phase        prefill decode mixed idle
-- @column phase        VARCHAR  prefill, decode, mixed or idle; NULL if unknown.
-- @column step_id      BIGINT   Step; NULL if by is phase.
-- @column number       BIGINT   Position of the step in its rank, from 0; NULL if by is phase.
-- @column steps        BIGINT   Number of steps of the rank that the row sums up.
-- @column segment      VARCHAR  host, launch, kernel, copy, communication, transfer or skew.
-- @column rank         BIGINT   Rank that the segment was on; NULL for all ranks of the communicator.
-- @column ns           BIGINT   Total duration of the segment, ns; skew may be negative.
-- @column share_pct    DOUBLE   ns in percent of the length.
-- @column per_step_ns  DOUBLE   ns per step, ns.
-- @column operations   BIGINT   Operations that the segment preceded, or that transferred data.
-- @column length_ns    BIGINT   Length of the steps, ns.
-- @column group_ranks  VARCHAR  Ranks of the communicator; NULL if the segments are the rank's own time.
-- @key    phase step_id number segment rank ns share_pct per_step_ns steps
-- @empty  no such step (steps.timeline lists them), no kernels in the step, or none of its operations belong to the communicator
-- @chart  stacked x=per_step_ns y=number,phase color=segment
-- @title  Critical path of the average step
WITH RECURSIVE requested AS (
    SELECT COALESCE((SELECT rank FROM step WHERE step_id = $step::BIGINT), $rank::BIGINT) AS rank
),
main_communicator AS MATERIALIZED (
    SELECT collective.communicator_id, ANY_VALUE(collective.group_ranks) AS group_ranks
    FROM collective_arrival
    INNER JOIN collective USING (kernel_id)
    WHERE collective_arrival.rank IN (FROM requested)
    GROUP BY collective.communicator_id
    ORDER BY BOOL_AND(collective.op IN ('send', 'recv')), COUNT(*) DESC, ANY_VALUE(collective.group_ranks)
    LIMIT 1
),
attended AS MATERIALIZED (
    SELECT
        collective_arrival.*, collective.transfer_ns, kernel.ts, kernel.dur,
        collective_arrival.rank IN (FROM requested) AS is_requested
    FROM collective_arrival
    INNER JOIN collective USING (kernel_id)
    INNER JOIN kernel ON collective_arrival.kernel_id = kernel.id
    WHERE collective.communicator_id IN (SELECT communicator_id FROM main_communicator)
),
own AS MATERIALIZED (
    SELECT
        *,
        ts + dur - LAG(ts + dur) OVER (ORDER BY ts, kernel_id) AS length_ns
    FROM attended
    WHERE is_requested
),
-- If several ranks arrive last at the same time, the requested rank is preferred.
last_rank AS MATERIALIZED (
    SELECT *
    FROM attended
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY match_id ORDER BY late_ns DESC, is_requested DESC, rank
    ) = 1
),
chain AS MATERIALIZED (
    SELECT
        own.step_id,
        UNNEST([
            {'segment': 'host', 'rank': last_rank.rank, 'ns': last_rank.host_ns},
            {'segment': 'launch', 'rank': last_rank.rank, 'ns': last_rank.other_ns},
            {'segment': 'kernel', 'rank': last_rank.rank, 'ns': last_rank.compute_ns},
            {'segment': 'copy', 'rank': last_rank.rank, 'ns': last_rank.copy_ns},
            {'segment': 'communication', 'rank': last_rank.rank, 'ns': last_rank.comm_ns},
            {'segment': 'transfer', 'rank': NULL, 'ns': own.transfer_ns},
            {'segment': 'skew', 'rank': NULL, 'ns': COALESCE(
                own.length_ns - last_rank.since_ns - own.transfer_ns, 0
            )}
        ], recursive := TRUE)
    FROM own
    INNER JOIN last_rank USING (match_id)
),
-- Intervals of the late ranks that contain communication in other communicators.
begun AS MATERIALIZED (
    SELECT
        own.step_id, last_rank.rank, kernel.device,
        last_rank.ts - last_rank.since_ns AS begin_ts,
        last_rank.ts AS end_ts,
        NULL::BIGINT AS waiting_rank,
        0 AS depth
    FROM own
    INNER JOIN last_rank USING (match_id)
    INNER JOIN kernel ON last_rank.kernel_id = kernel.id
    WHERE last_rank.comm_ns > 0
),
-- Every wait, cut to the part after its device's last compute kernel, so that no time is counted
-- twice; and the kernel whose arrival ended the wait.
waited AS (
    SELECT
        kernel.rank, kernel.device, kernel.ts,
        kernel.ts + collective.wait_ns AS end_ts,
        late.rank AS late_rank,
        late.device AS late_device,
        late.ts AS late_ts
    FROM (FROM collective WHERE wait_ns > 0 AND EXISTS (FROM begun)) AS collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    INNER JOIN straggler USING (match_id)
    INNER JOIN kernel AS late ON straggler.kernel_id = late.id AND late.rank <> kernel.rank
),
computing AS (
    SELECT rank, device, ts, ts + dur AS end_ts FROM device_state WHERE compute AND EXISTS (FROM begun)
),
waiting AS MATERIALIZED (
    FROM (
        SELECT waited.* REPLACE (GREATEST(waited.ts, COALESCE(computing.end_ts, waited.ts)) AS ts)
        FROM waited
        ASOF LEFT JOIN computing
            ON waited.rank = computing.rank
            AND waited.device = computing.device
            AND waited.end_ts > computing.ts
    )
    WHERE ts < end_ts
    QUALIFY COALESCE(ts >= MAX(end_ts) OVER (
        PARTITION BY rank, device ORDER BY end_ts, ts
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), TRUE)
),
-- For each wait, the same interval on the rank that was waited for, on that rank's own clock; and so
-- on, if that rank waited as well.
stretch AS (
    FROM begun
    UNION ALL
    SELECT
        stretch.step_id, waiting.late_rank, waiting.late_device,
        waiting.late_ts - (waiting.end_ts - GREATEST(waiting.ts, stretch.begin_ts)),
        waiting.late_ts - (waiting.end_ts - LEAST(waiting.end_ts, stretch.end_ts)),
        stretch.rank,
        stretch.depth + 1
    FROM stretch
    INNER JOIN waiting
        ON stretch.rank = waiting.rank
        AND stretch.device = waiting.device
        AND waiting.ts < stretch.end_ts
        AND waiting.end_ts > stretch.begin_ts
    WHERE stretch.depth < 16
),
followed AS MATERIALIZED (
    SELECT ROW_NUMBER() OVER () AS number, * FROM stretch WHERE depth > 0
),
spent AS (
    SELECT
        rank, device, ts, dur,
        CASE
            WHEN part = 'computing' THEN 'kernel'
            WHEN part = 'exposed_copy' THEN 'copy'
            WHEN part <> 'idle' THEN 'communication'
            WHEN cause IN ('host', 'sync') THEN 'host'
            ELSE 'launch'
        END AS segment
    FROM device_timeline
),
state AS (
    FROM spent WHERE rank IN (SELECT rank FROM followed)
),
kind AS (
    SELECT UNNEST(['kernel', 'communication', 'copy', 'host', 'launch']) AS segment
),
-- Cumulative time of each kind of segment up to each state.
counted AS (
    SELECT
        kind.segment, state.rank, state.device, state.ts,
        CASE WHEN state.segment = kind.segment THEN state.dur ELSE 0 END AS ns,
        SUM(CASE WHEN state.segment = kind.segment THEN state.dur ELSE 0 END) OVER (
            PARTITION BY kind.segment, state.rank, state.device ORDER BY state.ts
        ) AS until_ns
    FROM state
    CROSS JOIN kind
),
instant AS (
    SELECT followed.*, kind.segment, edge.ts, edge.sign
    FROM followed
    CROSS JOIN kind
    CROSS JOIN LATERAL (
        SELECT UNNEST([
            {'ts': followed.begin_ts, 'sign': -1}, {'ts': followed.end_ts, 'sign': 1}
        ], recursive := TRUE)
    ) AS edge
),
elsewhere AS (
    SELECT
        instant.number, instant.step_id, instant.segment, instant.rank,
        CAST(SUM(instant.sign * (
            counted.until_ns - counted.ns + LEAST(counted.ns, instant.ts - counted.ts)
        )) AS BIGINT) AS ns
    FROM instant
    ASOF INNER JOIN counted
        ON instant.segment = counted.segment
        AND instant.rank = counted.rank
        AND instant.device = counted.device
        AND instant.ts >= counted.ts
    GROUP BY ALL
),
along AS (
    SELECT step_id, segment, rank, ns FROM chain
    UNION ALL
    SELECT step_id, segment, rank, ns FROM elsewhere
    UNION ALL
    SELECT step_id, 'communication', waiting_rank, begin_ts - end_ts FROM followed
    UNION ALL
    -- Nothing is known about a rank before its first kernel.
    SELECT
        followed.step_id,
        'skew',
        NULL,
        followed.end_ts - followed.begin_ts - COALESCE(SUM(elsewhere.ns), 0)
    FROM followed
    LEFT JOIN elsewhere USING (number)
    GROUP BY followed.number, followed.step_id, followed.end_ts, followed.begin_ts
),
-- Steps of a rank without matched operations. A kernel's end is always the end of a device state.
ended AS (
    SELECT
        step_id, device,
        gpu_ts + gpu_dur AS end_ts,
        MAX(end_ts) OVER (
            PARTITION BY device ORDER BY gpu_ts, step_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS from_ts
    FROM step
    WHERE rank IN (FROM requested) AND gpu_ts IS NOT NULL AND NOT EXISTS (FROM main_communicator)
    QUALIFY COALESCE(end_ts > from_ts, TRUE)
),
alone AS (
    SELECT ended.step_id, state.segment, state.rank, state.dur AS ns
    FROM (
        FROM spent
        WHERE
            rank IN (FROM requested)
            -- The states of other steps need not be sorted.
            AND ($step::BIGINT IS NULL OR (
                ts < (SELECT end_ts FROM ended WHERE step_id = $step::BIGINT)
                AND ts >= (SELECT COALESCE(from_ts, -(1::BIGINT << 62)) FROM ended WHERE step_id = $step::BIGINT)
            ))
    ) AS state
    ASOF INNER JOIN ended ON state.device = ended.device AND state.ts < ended.end_ts
),
segmented AS (
    SELECT step_id, segment, rank, COUNT(*) AS operations, SUM(ns) AS ns
    FROM along
    WHERE ns <> 0
    GROUP BY step_id, segment, rank
    HAVING SUM(ns) <> 0
    UNION ALL
    SELECT step_id, segment, rank, 0, SUM(ns)
    FROM alone
    GROUP BY step_id, segment, rank
),
measured AS (
    SELECT
        step.phase,
        CASE WHEN $by::VARCHAR = 'step' OR $step::BIGINT IS NOT NULL THEN step.step_id END AS step_id,
        CASE WHEN $by::VARCHAR = 'step' OR $step::BIGINT IS NOT NULL THEN step.number END AS number,
        step.step_id AS of_step_id,
        segmented.segment, segmented.rank, segmented.operations, segmented.ns
    FROM segmented
    INNER JOIN step USING (step_id)
    WHERE
        ($step::BIGINT IS NULL OR step.step_id = $step::BIGINT)
        AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
),
size AS (
    SELECT phase, step_id, COUNT(DISTINCT of_step_id) AS steps, SUM(ns) AS length_ns FROM measured GROUP BY phase, step_id
),
summed AS (
    SELECT phase, step_id, number, segment, rank, SUM(operations) AS operations, SUM(ns) AS ns
    FROM measured
    GROUP BY phase, step_id, number, segment, rank
)
SELECT
    summed.phase, summed.step_id, summed.number, size.steps, summed.segment, summed.rank,
    CAST(summed.ns AS BIGINT) AS ns,
    100.0 * summed.ns / NULLIF(size.length_ns, 0) AS share_pct,
    1.0 * summed.ns / size.steps AS per_step_ns,
    CAST(summed.operations AS BIGINT) AS operations,
    CAST(size.length_ns AS BIGINT) AS length_ns,
    (SELECT group_ranks FROM main_communicator) AS group_ranks
FROM summed
INNER JOIN size
    ON summed.phase IS NOT DISTINCT FROM size.phase AND summed.step_id IS NOT DISTINCT FROM size.step_id
ORDER BY
    summed.number,
    CASE WHEN summed.number IS NULL THEN size.length_ns END DESC,
    summed.phase,
    summed.ns DESC,
    summed.segment,
    summed.rank
LIMIT $limit::INTEGER
