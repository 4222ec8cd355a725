-- One row per rank, root rank and step: the time that the rank lost because the host of the root rank was late in that step; of several devices, the mean of each.
-- @needs  lost_time, rank_window, step, step_kind
SELECT
    lost_time.rank, lost_time.root_rank,
    lost_time.root_step_id AS step_id,
    step_kind.number, step_kind.phase,
    COALESCE(step_kind.kind, 'outside of steps') AS kind,
    SUM(lost_time.ns) // ANY_VALUE(rank_window.devices) AS ns,
    COALESCE(SUM(lost_time.ns) FILTER (lost_time.part = 'idle'), 0) // ANY_VALUE(rank_window.devices) AS idle_ns,
    COALESCE(SUM(lost_time.ns) FILTER (lost_time.cause = 'sync'), 0) // ANY_VALUE(rank_window.devices) AS sync_ns,
    arg_max(lost_time.longest_ts, lost_time.longest_ns) FILTER (lost_time.part = 'idle') AS longest_ts,
    MAX(lost_time.longest_ns) FILTER (lost_time.part = 'idle') AS longest_ns
FROM lost_time
INNER JOIN rank_window ON lost_time.rank = rank_window.rank
LEFT JOIN step ON lost_time.root_step_id = step.step_id
LEFT JOIN step_kind ON lost_time.root_step_id = step_kind.step_id
WHERE lost_time.cause IN ('host', 'sync') AND step.phase IS DISTINCT FROM 'idle'
GROUP BY ALL
