-- The devices of the loaded ranks say that they waited mostly for one rank, which was not loaded.
-- @title   a late rank that was not loaded
-- @group   communication
-- @most    notable
-- @query   comm.peers
-- @record  Record at a level that has the planes of operations (Ascend, level 1 or 2).
-- @source  own: waiting that is spread over several ranks has no single reason
-- @needs   collective, kernel, time_scale, time_unit, trace, wording
WITH blamed AS (
    SELECT
        collective.communicator_id,
        ANY_VALUE(collective.group_size) AS group_size,
        collective.late_place,
        ANY_VALUE(collective.late_rank) AS late_rank,
        SUM(collective.wait_ns) AS ns,
        SUM(collective.wait_ns) / NULLIF(SUM(SUM(collective.wait_ns)) OVER (PARTITION BY collective.communicator_id), 0) AS share,
        COUNT(*) AS operations,
        arg_max(collective.rank, collective.wait_ns) AS rank,
        arg_max(kernel.ts, collective.wait_ns) AS ts,
        arg_max(kernel.dur, collective.wait_ns) AS dur
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    WHERE collective.wait_source = 'planes' AND collective.late_place IS NOT NULL
    GROUP BY collective.communicator_id, collective.late_place
),
most AS (
    SELECT arg_max(blamed, ns) AS peer, COUNT(*) AS peers FROM blamed
),
claimed AS (
    SELECT
        list({'unit': time_unit.unit, 'ns': CAST(time_unit.ns * most.peer.share AS BIGINT)} ORDER BY time_unit.unit) AS claims,
        COALESCE(SUM(time_unit.ns), 0) AS ns
    FROM time_unit
    INNER JOIN most ON time_unit.communicator_id = most.peer.communicator_id
    WHERE time_unit.cause = 'peer'
),
judged AS (
    SELECT
        most.peer, claimed.claims, wording.device,
        claimed.ns * most.peer.share / (scale.devices * scale.steps) AS wait_ns,
        claimed.ns * most.peer.share / (scale.devices * scale.steps * scale.step_ns) AS share,
        most.peer.late_rank IN (SELECT rank FROM trace WHERE rank IS NOT NULL) AS is_loaded
    FROM most
    CROSS JOIN claimed
    CROSS JOIN wording
    LEFT JOIN time_scale AS scale ON TRUE
)
SELECT
    CASE
        WHEN peer IS NULL OR is_loaded THEN FALSE
        WHEN share IS NULL THEN NULL
        ELSE share >= 0.02 AND peer.share >= 0.6
    END AS is_confirmed,
    CASE
        WHEN peer IS NULL THEN 'no device says for whom it waited'
        WHEN is_loaded THEN 'the rank that others wait for was loaded'
        WHEN peer.share < 0.6 THEN format('{:.0f}% of the waiting is for one rank', 100 * peer.share)
        ELSE format('ranks wait {:.1f}% of a step for it', 100 * share)
    END AS reason,
    format(
        'Loaded ranks wait {{saving}} a step for rank {} of a communicator{}', peer.late_place,
        COALESCE(format(' of {} ranks', peer.group_size), '')
    ) AS headline,
    [
        format('In {:,} operations, the planes of the devices wait for that rank.', peer.operations),
        format('{:.0f}% of the waiting in that communicator is for it.', 100 * peer.share)
    ] AS evidence,
    format('Record and load rank {} too: its recording says what it did before these operations', COALESCE(peer.late_rank, peer.late_place)) AS remedy,
    'What that rank did: its recording was not loaded.' AS unknowns,
    claims, peer.operations AS samples, peer.rank AS rank, peer.ts AS ts, peer.dur AS dur
FROM judged
