-- The devices of the loaded ranks say that they waited mostly for one rank, while not all ranks are loaded.
--
-- value is the mean time that each loaded rank waited for it, as a share of the run.
-- @title      late peer
-- @notable    5
-- @severe     15
-- @unit       % of the run
-- @threshold  share = 0.6  Share of the wait time in its communicator that must be for this rank.
-- @evidence   comm.peers
-- @advice     Load the recording of that rank too, and see what it did before these operations.
-- @source     own: the same as for a late rank
-- @needs      collective, finding_rule, kernel, run_window
WITH waited AS (
    SELECT
        collective.communicator_id, collective.group_size, collective.late_place, collective.rank,
        collective.wait_ns, kernel.ts, kernel.dur
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    WHERE collective.wait_source = 'planes' AND collective.late_place IS NOT NULL
),
blamed AS (
    SELECT
        communicator_id,
        ANY_VALUE(group_size) AS group_size,
        late_place,
        SUM(wait_ns) AS ns,
        SUM(wait_ns) / NULLIF(SUM(SUM(wait_ns)) OVER (PARTITION BY communicator_id), 0) AS share,
        COUNT(DISTINCT rank) AS ranks,
        COUNT(*) AS operations,
        arg_max(rank, wait_ns) AS rank,
        arg_max(ts, wait_ns) AS ts,
        arg_max(dur, wait_ns) AS dur
    FROM waited
    GROUP BY communicator_id, late_place
    QUALIFY ROW_NUMBER() OVER (ORDER BY SUM(wait_ns) DESC, communicator_id, late_place) = 1
)
SELECT
    100.0 * blamed.ns / blamed.ranks / run_window.ns AS value,
    CAST(blamed.ns AS BIGINT) AS cost_ns,
    format(
        'Rank {} of a communicator{} is late: the loaded ranks waited {:.1f} ms for it on average, in {} operations. {:.0f}% of their wait in that communicator was for it, by the times of their own devices.',
        blamed.late_place,
        COALESCE(format(' of {} ranks', blamed.group_size), ''),
        blamed.ns / blamed.ranks / 1e6,
        blamed.operations,
        100 * blamed.share
    ) AS finding,
    blamed.rank, blamed.ts, blamed.dur
FROM blamed
CROSS JOIN run_window
CROSS JOIN (SELECT thresholds FROM finding_rule WHERE finding = 'late peer') AS rule
WHERE blamed.share >= rule.thresholds['share']
