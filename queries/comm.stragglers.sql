-- One row per late rank, phase, role and cause, by wait time: which operations waited, and why; or one row per operation.
--
-- Use it to see where the waiting is, and what the host of the late rank did before. Each row has its
-- costliest operation as an example: its number, layer and time. doing is what the launching thread of the
-- late rank did during its longest idle gap between that operation and the previous one of the
-- communicator: the innermost operator, annotation, Python frame or runtime call, whichever took the
-- most time.
-- @param  limit        INTEGER = 20    Maximum number of rows.
-- @param  by           VARCHAR = 'role'  One row per role, per phase (all roles together), or per operation.
-- @param  rank         BIGINT  = NULL  Only operations for which this rank was late; all by default.
-- @param  phase        VARCHAR = NULL  Only steps of this phase; all by default.
-- @param  role         VARCHAR = NULL  Only operations of this role, such as attn_allreduce.
-- @values by           role phase operation
-- @values phase        prefill decode mixed idle
-- @column rank         BIGINT   The late rank (the rank that the others waited for).
-- @column phase        VARCHAR  Phase of the step.
-- @column role         VARCHAR  Part of the model that the operation belongs to; NULL if by is phase, or if it is unknown.
-- @column cause        VARCHAR  host, kernel, preemption, copy, communication, launch, start or unknown (see straggler.cause).
-- @column wait_ns      BIGINT   Wait time of all ranks together, ns.
-- @column share_pct    DOUBLE   Percent of the wait time of all operations that pass the filters.
-- @column operations   BIGINT   Number of operations.
-- @column late_ns      DOUBLE   Mean delay of the late rank after the earliest rank, ns.
-- @column excess_ns    BIGINT   How much more time than the other ranks it spent on the cause, ns.
-- @column doing        VARCHAR  What its host did in the longest gap before the costliest operation, if the cause is host.
-- @column doing_pct    DOUBLE   doing in percent of that gap.
-- @column op           VARCHAR  Costliest operation: all_reduce, all_gather, send ...
-- @column layer        BIGINT   Its model layer.
-- @column number       BIGINT   Position of its step in the late rank, from 0.
-- @column ts           BIGINT   Its start on the late rank, ns since the run's first event.
-- @column match_id     BIGINT   Its number, as in collective.
-- @key    rank phase role wait_ns cause doing share_pct operations late_ns
-- @empty  no rank waited for another in an operation that was matched on two ranks and passes the filters; check that all ranks are loaded
-- @chart  bar x=wait_ns y=role,phase color=cause
-- @title  Waiting for late ranks, by role and phase
WITH late AS (
    SELECT
        straggler.*, step.phase, step.number,
        CASE WHEN $by::VARCHAR <> 'phase' THEN kernel.role END AS role,
        CASE WHEN $by::VARCHAR = 'operation' THEN straggler.match_id END AS operation
    FROM straggler
    INNER JOIN kernel ON straggler.kernel_id = kernel.id
    LEFT JOIN step ON straggler.step_id = step.step_id
    WHERE
        straggler.wait_ns > 0
        AND ($rank::BIGINT IS NULL OR straggler.rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
        AND ($role::VARCHAR IS NULL OR kernel.role = $role::VARCHAR)
),
summed AS (
    SELECT
        rank, phase, role, cause,
        COUNT(*) AS operations,
        SUM(wait_ns) AS wait_ns,
        100.0 * SUM(wait_ns) / SUM(SUM(wait_ns)) OVER () AS share_pct,
        AVG(late_ns) AS late_ns,
        SUM(excess_ns) AS excess_ns,
        arg_max(number, [wait_ns, -match_id]) AS number,
        arg_max(kernel_id, [wait_ns, -match_id]) AS kernel_id,
        arg_max(match_id, [wait_ns, -match_id]) AS match_id
    FROM late
    GROUP BY rank, phase, role, cause, operation
    ORDER BY wait_ns DESC, match_id
    LIMIT $limit::INTEGER
),
example AS (
    SELECT
        summed.kernel_id, summed.cause, kernel.rank, kernel.ts, kernel.layer,
        collective_arrival.since_ns, collective.op
    FROM summed
    INNER JOIN kernel ON summed.kernel_id = kernel.id
    INNER JOIN collective_arrival USING (kernel_id)
    INNER JOIN collective USING (kernel_id)
),
longest_gap AS (
    SELECT example.kernel_id, arg_max(gap, gap.dur) AS gap
    FROM example
    INNER JOIN gap
        ON example.rank = gap.rank
        AND gap.ts >= example.ts - example.since_ns
        AND gap.ts < example.ts
    WHERE example.cause = 'host' AND gap.cause IN ('host', 'sync')
    GROUP BY example.kernel_id
),
on_thread AS (
    SELECT
        longest_gap.kernel_id,
        longest_gap.gap.dur AS gap_ns,
        slice.id, slice.parent_id, slice.name,
        LEAST(slice.ts + slice.dur, longest_gap.gap.ts + longest_gap.gap.dur)
        - GREATEST(slice.ts, longest_gap.gap.ts) AS covered_ns
    FROM longest_gap
    INNER JOIN slice
        ON longest_gap.gap.track_id = slice.track_id
        AND slice.ts < longest_gap.gap.ts + longest_gap.gap.dur
        AND slice.ts + slice.dur > longest_gap.gap.ts
),
own AS (
    SELECT
        slice.kernel_id, slice.gap_ns,
        host_name(slice.name) AS name,
        slice.covered_ns - COALESCE(SUM(child.covered_ns), 0) AS self_ns
    FROM on_thread AS slice
    LEFT JOIN on_thread AS child
        ON slice.kernel_id = child.kernel_id AND slice.id = child.parent_id
    GROUP BY slice.kernel_id, slice.gap_ns, slice.id, slice.name, slice.covered_ns
),
named AS (
    SELECT kernel_id, ANY_VALUE(gap_ns) AS gap_ns, name, SUM(self_ns) AS self_ns
    FROM own
    GROUP BY kernel_id, name
),
main AS (
    SELECT
        kernel_id,
        arg_max(name, self_ns) AS doing,
        100.0 * MAX(self_ns) / ANY_VALUE(gap_ns) AS doing_pct
    FROM named
    GROUP BY kernel_id
)
SELECT
    summed.rank, summed.phase, summed.role, summed.cause,
    CAST(summed.wait_ns AS BIGINT) AS wait_ns,
    summed.share_pct, summed.operations, summed.late_ns,
    CAST(summed.excess_ns AS BIGINT) AS excess_ns,
    main.doing, main.doing_pct, example.op, example.layer, summed.number, example.ts,
    summed.match_id
FROM summed
INNER JOIN example USING (kernel_id)
LEFT JOIN main USING (kernel_id)
ORDER BY summed.wait_ns DESC, summed.match_id
