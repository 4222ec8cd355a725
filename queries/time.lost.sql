-- One row per root cause of lost time, the costliest first: idle time and waiting that one cause explains.
--
-- Use it to find out what to fix first. Lost time is idle time of a GPU, and time in which its
-- collectives waited for a late rank. Idle time is charged to the rank itself; waiting is charged to
-- the late rank and the cause of its delay. So if the host of one rank is slow, its own idle time and
-- the waiting of all others are one row. All rows add up to the idle_ns and exposed_wait_ns of
-- time.breakdown.
--
-- - host: the GPU had nothing to do, because the host launched the next kernel late
-- - sync: like host, and the host was blocked in a synchronizing call
-- - launch: the next kernel was launched and had not started yet, for most of the gap; between kernels this is the GPU's own delay
-- - dependency: the next kernel waited for another stream
-- - not recorded: records of kernels that may have run meanwhile are missing, so that nothing may have been lost
-- - kernel, preemption, copy: the late rank spent more time in compute kernels, in those of another stream, or in copies
-- - communication: the late rank was held up by another communicator
-- - peer: the devices that waited identify the late rank, but not the cause: not all ranks are loaded (see comm.peers)
-- - pipeline: a stage of the pipeline waited for another one
-- - start: the first operation of a communicator in the trace; what came before was not recorded
-- - clock: the clocks of the ranks are too uncertain to decide
-- - unknown: the trace has no evidence
-- @param  limit       INTEGER = 20    Maximum number of rows.
-- @param  rank        BIGINT  = NULL  Only causes on this rank; all by default.
-- @param  phase       VARCHAR = NULL  Only steps of this phase; all by default.
-- @values phase       prefill decode mixed idle
-- @column rank        BIGINT   Rank that the cause is on; NULL if unknown.
-- @column phase       VARCHAR  Phase of the steps of that rank, or of those that waited for it if the cause is peer; NULL if unknown.
-- @column graph_mode  VARCHAR  How these steps used CUDA graphs: full, piecewise or none.
-- @column cause       VARCHAR  host, sync, dependency, launch, not recorded, kernel, preemption, copy, communication, peer, pipeline, start, clock or unknown.
-- @column late_place  BIGINT   Number of the late rank in its communicator, from 0, if the cause is peer.
-- @column lost_ns     BIGINT   Time that it cost all ranks together, ns: idle_ns and wait_ns.
-- @column idle_ns     BIGINT   Part of lost_ns in which the rank itself was idle, ns.
-- @column wait_ns     BIGINT   Part of lost_ns in which other ranks waited for it, ns.
-- @column share_pct   DOUBLE   lost_ns in percent of the GPU spans of all ranks.
-- @column steps       BIGINT   Steps of the rank that have the cause.
-- @column doing       VARCHAR  What the host of the rank did most while the GPU waited for it, if the cause is host or sync.
-- @column doing_pct   DOUBLE   doing in percent of that time.
-- @key    rank phase cause late_place lost_ns wait_ns idle_ns graph_mode share_pct doing
-- @empty  no time was lost, or the trace has no GPU activity
-- @chart  stacked x=idle_ns,wait_ns y=phase
-- @title  Lost time by phase
WITH span AS (
    SELECT SUM(dur) AS ns FROM device_timeline
),
doing AS (
    SELECT rank, phase, graph_mode, cause, arg_max(name, ns) AS name, 100.0 * MAX(ns) / SUM(ns) AS pct, SUM(ns) AS ns
    FROM (SELECT rank, phase, graph_mode, cause, name, SUM(ns) AS ns FROM gap_host_event GROUP BY ALL)
    GROUP BY rank, phase, graph_mode, cause
),
blamed AS (
    SELECT
        lost_time.root_rank AS rank,
        step.phase, step.graph_mode, lost_time.cause, lost_time.late_place,
        SUM(lost_time.ns) AS lost_ns,
        COALESCE(SUM(lost_time.ns) FILTER (lost_time.part = 'idle'), 0) AS idle_ns,
        COALESCE(SUM(lost_time.ns) FILTER (lost_time.part = 'exposed_wait'), 0) AS wait_ns,
        COUNT(DISTINCT lost_time.root_step_id) AS steps
    FROM lost_time
    -- A rank that is not loaded has no steps here.
    LEFT JOIN step
        ON COALESCE(lost_time.root_step_id, CASE lost_time.cause WHEN 'peer' THEN lost_time.step_id END) = step.step_id
    WHERE
        ($rank::BIGINT IS NULL OR lost_time.root_rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
    GROUP BY ALL
)
SELECT
    blamed.rank, blamed.phase, blamed.graph_mode, blamed.cause, blamed.late_place,
    CAST(blamed.lost_ns AS BIGINT) AS lost_ns,
    CAST(blamed.idle_ns AS BIGINT) AS idle_ns,
    CAST(blamed.wait_ns AS BIGINT) AS wait_ns,
    100.0 * blamed.lost_ns / NULLIF(span.ns, 0) AS share_pct,
    blamed.steps,
    doing.name AS doing,
    doing.pct AS doing_pct
FROM blamed
CROSS JOIN span
LEFT JOIN doing
    ON blamed.rank = doing.rank
    AND blamed.phase IS NOT DISTINCT FROM doing.phase
    AND blamed.graph_mode IS NOT DISTINCT FROM doing.graph_mode
    AND blamed.cause = doing.cause
    -- Not if most of the gaps of this cause were launched early: their time is in another row.
    AND doing.ns < 2 * blamed.idle_ns
ORDER BY lost_ns DESC, blamed.rank, blamed.phase, blamed.graph_mode, blamed.cause, blamed.late_place
LIMIT $limit::INTEGER
