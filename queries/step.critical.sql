-- One row per step, kind of link and rank on which it lay: the chain that set the step's length.
--
-- Between two operations of its group no rank gets further than the one that comes last. So a step
-- lasts what these ranks did, one after the other, and the transfers. Its length is from the end of
-- the group's last operation in the step before to that of its own last one, on the rank asked for
-- (of the first step, from the late rank's first kernel); the links of a step add up to it.
--
-- host: the late rank's GPU had nothing, because its host had issued nothing. launch: gaps of other
-- causes. kernel: it computed. copy: nothing but copies ran. communication: with other groups.
-- transfer: the operations themselves, on all their ranks. skew: by what ranks differ at the ends
-- of operations. The group is the one with most operations on the rank; what runs after the last of
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
WITH main_group AS (
    SELECT collective.group_ranks
    FROM arrival
    INNER JOIN collective USING (kernel_id)
    WHERE arrival.rank = $rank::BIGINT
    GROUP BY collective.group_ranks
    ORDER BY collective.group_ranks LIKE '% to %', COUNT(*) DESC, collective.group_ranks
    LIMIT 1
),
attended AS (
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
own AS (
    SELECT
        *,
        ts + dur - LAG(ts + dur) OVER (ORDER BY ts, kernel_id) AS length_ns
    FROM attended
    WHERE rank = $rank::BIGINT
),
-- Where all came at once, any rank's time is as good: that of the rank asked for.
last_rank AS (
    SELECT *
    FROM attended
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY match_id ORDER BY late_ns DESC, rank = $rank::BIGINT DESC, rank
    ) = 1
),
chain AS (
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
    FROM chain
    WHERE ns <> 0
    GROUP BY step_id, group_ranks, link, rank
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
