-- One row per step, kind of link and rank on which it lay: the chain that set the step's length.
--
-- Between two operations of its group no rank gets further than the one that comes last. So a step
-- lasts what these ranks did, one after the other, and the transfers. Its length is from the end of
-- the group's last operation in the step before to that of its own last one, on the rank asked for
-- (of the first step, from the late rank's first kernel); the links of a step add up to it.
--
-- host: the late rank's GPU had nothing, because its host had issued nothing. launch: gaps of other
-- causes. kernel: it computed. copy: nothing but copies ran. transfer: the operations themselves, on
-- all their ranks. communication: with other groups, such as a receive from another pipeline stage;
-- where it was waiting there, and computed nothing meanwhile, the links are what the rank that it
-- waited for did in that time, and so on. skew: by what ranks differ at the ends of operations. The
-- group is the one with most operations on the rank; what runs after the last of
-- them (the sampler) belongs to the next step. Without operations that all ranks were found of, the
-- links are the rank's own time, from the end of the step before on the GPU.
-- @param  rank         BIGINT  = 0     Rank whose steps these are.
-- @param  step         BIGINT  = NULL  Step, by its position in that rank, from 0; all where NULL.
-- @param  limit        INTEGER = 1000  Rows to return.
-- @column step         BIGINT   Step, by its position in the rank, from 0.
-- @column step_id      BIGINT   Step.
-- @column phase        VARCHAR  prefill, decode, mixed or idle; NULL where the trace does not say.
-- @column length_ns    BIGINT   Length of the step, ns.
-- @column link         VARCHAR  host, launch, kernel, copy, communication, transfer or skew.
-- @column rank         BIGINT   Rank on which it lay; NULL for the whole group.
-- @column operations   BIGINT   Operations before which it lay there, or that moved bytes.
-- @column ns           BIGINT   How long, ns; skew may be negative.
-- @column share_pct    DOUBLE   Percent of the length.
-- @column group_ranks  VARCHAR  The group; NULL where the links are the rank's own time.
-- @chart  stacked x=ns y=step color=link
-- @title  What set the length of the longest steps
WITH RECURSIVE main_group AS (
    SELECT collective.group_ranks
    FROM arrival
    INNER JOIN collective USING (kernel_id)
    WHERE arrival.rank = $rank::BIGINT
    GROUP BY collective.group_ranks
    ORDER BY collective.group_ranks LIKE '% to %', COUNT(*) DESC, collective.group_ranks
    LIMIT 1
),
attended AS MATERIALIZED (
    SELECT
        arrival.*,
        collective.transfer_ns,
        kernel.ts,
        kernel.dur,
        collective.group_ranks
    FROM arrival
    INNER JOIN collective USING (kernel_id)
    INNER JOIN kernel ON arrival.kernel_id = kernel.id
    WHERE collective.group_ranks IN (FROM main_group)
),
own AS MATERIALIZED (
    SELECT
        *,
        ts + dur - LAG(ts + dur) OVER (ORDER BY ts, kernel_id) AS length_ns
    FROM attended
    WHERE rank = $rank::BIGINT
),
-- Where all came at once, any rank's time is as good: that of the rank asked for.
last_rank AS MATERIALIZED (
    SELECT *
    FROM attended
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY match_id ORDER BY late_ns DESC, rank = $rank::BIGINT DESC, rank
    ) = 1
),
chain AS MATERIALIZED (
    SELECT
        own.step_id,
        own.group_ranks,
        UNNEST([
            {'link': 'host', 'rank': last_rank.rank, 'ns': last_rank.host_ns},
            {'link': 'launch', 'rank': last_rank.rank, 'ns': last_rank.other_ns},
            {'link': 'kernel', 'rank': last_rank.rank, 'ns': last_rank.compute_ns},
            {'link': 'copy', 'rank': last_rank.rank, 'ns': last_rank.copy_ns},
            {'link': 'communication', 'rank': last_rank.rank, 'ns': last_rank.comm_ns},
            {'link': 'transfer', 'rank': NULL, 'ns': own.transfer_ns},
            {'link': 'skew', 'rank': NULL, 'ns': COALESCE(
                own.length_ns - last_rank.since_ns - own.transfer_ns, 0
            )}
        ], recursive := TRUE)
    FROM own
    INNER JOIN last_rank USING (match_id)
),
-- What the late rank did, where it communicated with other groups.
begun AS MATERIALIZED (
    SELECT
        own.step_id,
        own.group_ranks,
        last_rank.rank,
        kernel.device,
        last_rank.ts - last_rank.since_ns AS begin_ts,
        last_rank.ts AS end_ts,
        NULL::BIGINT AS waiting_rank,
        0 AS depth
    FROM own
    INNER JOIN last_rank USING (match_id)
    INNER JOIN kernel ON last_rank.kernel_id = kernel.id
    WHERE last_rank.comm_ns > 0
),
-- The end of each wait, from when its device computed nothing more, none of it twice; and the kernel
-- that ended it.
waited AS (
    SELECT
        kernel.rank,
        kernel.device,
        kernel.ts,
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
-- And what those did that it waited for meanwhile, by each one's clock.
stretch AS (
    FROM begun
    UNION ALL
    SELECT
        stretch.step_id,
        stretch.group_ranks,
        waiting.late_rank,
        waiting.late_device,
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
state AS (
    SELECT
        device_state.rank,
        device_state.device,
        device_state.ts,
        device_state.dur,
        CASE
            WHEN device_state.compute THEN 'kernel'
            WHEN device_state.comm THEN 'communication'
            WHEN device_state.copy THEN 'copy'
            WHEN gap.cause IN ('host', 'sync') THEN 'host'
            ELSE 'launch'
        END AS link
    FROM device_state
    LEFT JOIN gap USING (rank, device, ts)
    WHERE device_state.rank IN (SELECT rank FROM followed)
),
kind AS (
    SELECT UNNEST(['kernel', 'communication', 'copy', 'host', 'launch']) AS link
),
-- Time of each kind before each state.
counted AS (
    SELECT
        kind.link,
        state.rank,
        state.device,
        state.ts,
        CASE WHEN state.link = kind.link THEN state.dur ELSE 0 END AS ns,
        SUM(CASE WHEN state.link = kind.link THEN state.dur ELSE 0 END) OVER (
            PARTITION BY kind.link, state.rank, state.device ORDER BY state.ts
        ) AS until_ns
    FROM state
    CROSS JOIN kind
),
instant AS (
    SELECT followed.*, kind.link, edge.ts, edge.sign
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
        instant.number,
        instant.step_id,
        instant.group_ranks,
        instant.link,
        instant.rank,
        CAST(SUM(instant.sign * (
            counted.until_ns - counted.ns + LEAST(counted.ns, instant.ts - counted.ts)
        )) AS BIGINT) AS ns
    FROM instant
    ASOF INNER JOIN counted
        ON instant.link = counted.link
        AND instant.rank = counted.rank
        AND instant.device = counted.device
        AND instant.ts >= counted.ts
    GROUP BY ALL
),
along AS (
    SELECT step_id, group_ranks, link, rank, ns FROM chain
    UNION ALL
    SELECT step_id, group_ranks, link, rank, ns FROM elsewhere
    UNION ALL
    SELECT step_id, group_ranks, 'communication', waiting_rank, begin_ts - end_ts FROM followed
    UNION ALL
    -- Before its first kernel nothing is known of a rank.
    SELECT
        followed.step_id,
        followed.group_ranks,
        'skew',
        NULL,
        followed.end_ts - followed.begin_ts - COALESCE(SUM(elsewhere.ns), 0)
    FROM followed
    LEFT JOIN elsewhere USING (number)
    GROUP BY followed.number, followed.step_id, followed.group_ranks, followed.end_ts, followed.begin_ts
),
-- Steps of a rank alone: a kernel's end is always the end of a device's state.
ended AS (
    SELECT step_id, gpu_ts + gpu_dur AS end_ts
    FROM step
    WHERE rank = $rank::BIGINT AND gpu_ts IS NOT NULL AND NOT EXISTS (FROM main_group)
    QUALIFY COALESCE(end_ts > MAX(end_ts) OVER (
        ORDER BY gpu_ts, step_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ), TRUE)
),
alone AS (
    SELECT
        ended.step_id,
        CASE
            WHEN state.compute THEN 'kernel'
            WHEN state.comm THEN 'communication'
            WHEN state.copy THEN 'copy'
            WHEN gap.cause IN ('host', 'sync') THEN 'host'
            ELSE 'launch'
        END AS link,
        state.rank,
        state.dur AS ns
    FROM (FROM device_state WHERE rank = $rank::BIGINT) AS state
    ASOF INNER JOIN ended ON state.ts < ended.end_ts
    LEFT JOIN gap ON state.rank = gap.rank AND state.device = gap.device AND state.ts = gap.ts
),
linked AS (
    SELECT step_id, group_ranks, link, rank, COUNT(*) AS operations, SUM(ns) AS ns
    FROM along
    WHERE ns <> 0
    GROUP BY step_id, group_ranks, link, rank
    HAVING SUM(ns) <> 0
    UNION ALL
    SELECT step_id, NULL, link, rank, 0, SUM(ns)
    FROM alone
    GROUP BY step_id, link, rank
),
measured AS (
    SELECT *, SUM(ns) OVER (PARTITION BY step_id) AS length_ns FROM linked
)
SELECT
    step.number AS step,
    step.step_id,
    step.phase,
    CAST(measured.length_ns AS BIGINT) AS length_ns,
    measured.link,
    measured.rank,
    measured.operations,
    CAST(measured.ns AS BIGINT) AS ns,
    100.0 * measured.ns / NULLIF(measured.length_ns, 0) AS share_pct,
    measured.group_ranks
FROM measured
INNER JOIN step USING (step_id)
WHERE $step::BIGINT IS NULL OR step.number = $step::BIGINT
ORDER BY step.number, measured.ns DESC, measured.link, measured.rank
LIMIT $limit::INTEGER
