-- One row per operation, by wait time: which rank was late, and what its host did meanwhile.
--
-- Use it to look into the most expensive waits one by one. doing is what the launching thread of
-- the late rank did during its longest idle gap since the previous operation of the communicator:
-- the innermost operator, annotation, Python frame or runtime call, whichever took the most time.
-- @param  limit        INTEGER = 20    Maximum number of rows.
-- @param  rank         BIGINT  = NULL  Only operations for which this rank was late; all by default.
-- @column match_id     BIGINT   Operation; the same number as in collective.
-- @column op           VARCHAR  Operation: all_reduce, all_gather, send ...
-- @column role         VARCHAR  Part of the model that asked for the operation.
-- @column layer        BIGINT   Model layer.
-- @column rank         BIGINT   The late rank (the rank that the others waited for).
-- @column number       BIGINT   Position of the step in the late rank, from 0.
-- @column ts           BIGINT   Start on the late rank, ns since the run's first event.
-- @column late_ns      BIGINT   Delay after the earliest rank, ns.
-- @column waited_ns    BIGINT   Wait time of all ranks together, ns.
-- @column cause        VARCHAR  host, kernel, preemption, copy, communication, launch, start or unknown (see straggler.cause).
-- @column excess_ns    BIGINT   How much more time than the other ranks it spent on the cause, ns.
-- @column doing        VARCHAR  What its host did in the longest gap before the operation, if the cause is host.
-- @column doing_pct    DOUBLE   doing in percent of the gap.
-- @empty  no rank waited for another in an operation that was matched on two ranks; check that all ranks are loaded
-- @chart  bar x=waited_ns y=match_id color=cause
-- @title  Operations with the most wait time
WITH worst AS (
    SELECT
        straggler.*,
        kernel.ts,
        kernel.role,
        kernel.layer,
        arrival.since_ns,
        collective.op
    FROM straggler
    INNER JOIN kernel ON straggler.kernel_id = kernel.id
    INNER JOIN arrival ON straggler.kernel_id = arrival.kernel_id
    INNER JOIN collective ON straggler.kernel_id = collective.kernel_id
    WHERE $rank::BIGINT IS NULL OR straggler.rank = $rank::BIGINT
    ORDER BY straggler.waited_ns DESC, straggler.match_id
    LIMIT $limit::INTEGER
),
longest_gap AS (
    SELECT worst.kernel_id, arg_max(gap, gap.dur) AS gap
    FROM worst
    INNER JOIN gap
        ON worst.rank = gap.rank
        AND gap.ts >= worst.ts - worst.since_ns
        AND gap.ts < worst.ts
    WHERE worst.cause = 'host' AND is_caused_by_host(gap.cause)
    GROUP BY worst.kernel_id
),
on_thread AS (
    SELECT
        longest_gap.kernel_id,
        longest_gap.gap.dur AS gap_ns,
        slice.id,
        slice.parent_id,
        slice.name,
        LEAST(slice.ts + slice.dur, longest_gap.gap.ts + longest_gap.gap.dur)
        - GREATEST(slice.ts, longest_gap.gap.ts) AS covered_ns
    FROM longest_gap
    INNER JOIN kernel AS following ON longest_gap.gap.next_kernel_id = following.id
    INNER JOIN slice AS call ON following.launch_id = call.id
    INNER JOIN slice
        ON call.track_id = slice.track_id
        AND slice.ts < longest_gap.gap.ts + longest_gap.gap.dur
        AND slice.ts + slice.dur > longest_gap.gap.ts
),
own AS (
    SELECT
        slice.kernel_id,
        slice.gap_ns,
        slice.name,
        slice.covered_ns - COALESCE(SUM(child.covered_ns), 0) AS own_ns
    FROM on_thread AS slice
    LEFT JOIN on_thread AS child
        ON slice.kernel_id = child.kernel_id AND slice.id = child.parent_id
    GROUP BY slice.kernel_id, slice.gap_ns, slice.id, slice.name, slice.covered_ns
),
named AS (
    SELECT kernel_id, ANY_VALUE(gap_ns) AS gap_ns, name, SUM(own_ns) AS own_ns
    FROM own
    GROUP BY kernel_id, name
),
main AS (
    SELECT
        kernel_id,
        arg_max(name, own_ns) AS doing,
        100.0 * MAX(own_ns) / ANY_VALUE(gap_ns) AS doing_pct
    FROM named
    GROUP BY kernel_id
)
SELECT
    worst.match_id,
    worst.op,
    worst.role,
    worst.layer,
    worst.rank,
    step.number,
    worst.ts,
    worst.late_ns,
    worst.waited_ns,
    worst.cause,
    worst.excess_ns,
    main.doing,
    main.doing_pct
FROM worst
LEFT JOIN step USING (step_id)
LEFT JOIN main USING (kernel_id)
ORDER BY worst.waited_ns DESC, worst.match_id
