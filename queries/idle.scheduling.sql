-- One row per rank and cause: how much of the GPU's idle time the thread that requested the next kernel was off the CPU.
--
-- Use it to tell a host that is too slow from one that is not allowed to run. The thread is the
-- launching one, or the one that handed it the launch (gap.track_id). Time off the CPU while it
-- waits for the GPU (cause sync) is harmless. If it is high for the cause host, other programs
-- compete for the cores: pin the threads, give the container more CPUs, or move the others away.
-- The part of a gap counts that lies before the launch call of the next kernel. The recording
-- must have scheduling (nsys profile --cpuctxsw=process-tree).
-- @param  rank         BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase        VARCHAR = NULL  Only gaps of steps of this phase; all by default.
-- @values phase        prefill decode mixed idle
-- @column rank         BIGINT   Rank.
-- @column cause        VARCHAR  host or sync.
-- @column gaps         BIGINT   Number of gaps.
-- @column wait_ns      BIGINT   Time in these gaps before the launch call of the next kernel, ns.
-- @column off_cpu_ns   BIGINT   Part of it in which that thread was on no CPU, ns.
-- @column off_cpu_pct  DOUBLE   The same in percent.
-- @column longest_ns   BIGINT   Longest such time in one gap, ns.
-- @key    rank cause wait_ns off_cpu_ns off_cpu_pct gaps longest_ns
-- @empty  no scheduling was recorded, or no gap has the cause host or sync; record it with nsys profile --cpuctxsw=process-tree
-- @chart  bar x=off_cpu_ns y=cause color=rank
-- @title  Idle time with the launching thread off the CPU
WITH off_cpu AS (
    SELECT slice.rank, slice.tid, slice.ts, slice.ts + slice.dur AS end_ts
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE event_kind.kind = 'off_cpu'
),
waiting AS (
    SELECT
        gap.rank, gap.device, gap.cause, gap.ts,
        LEAST(gap.ts + gap.dur, launch.ts) AS end_ts,
        track.tid
    FROM gap
    INNER JOIN kernel ON gap.next_kernel_id = kernel.id
    INNER JOIN launch ON kernel.launch_id = launch.id
    INNER JOIN track ON gap.track_id = track.id
    LEFT JOIN step ON gap.step_id = step.step_id
    WHERE
        gap.cause IN ('host', 'sync')
        AND ($rank::BIGINT IS NULL OR gap.rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
        AND gap.rank IN (SELECT rank FROM off_cpu)
),
off AS (
    SELECT
        waiting.rank, waiting.device, waiting.ts,
        SUM(LEAST(off_cpu.end_ts, waiting.end_ts) - GREATEST(off_cpu.ts, waiting.ts)) AS ns
    FROM waiting
    INNER JOIN off_cpu
        ON waiting.rank = off_cpu.rank
        AND waiting.tid = off_cpu.tid
        AND off_cpu.ts < waiting.end_ts
        AND off_cpu.end_ts > waiting.ts
    GROUP BY ALL
)
SELECT
    waiting.rank, waiting.cause,
    COUNT(*) AS gaps,
    CAST(SUM(waiting.end_ts - waiting.ts) AS BIGINT) AS wait_ns,
    CAST(COALESCE(SUM(off.ns), 0) AS BIGINT) AS off_cpu_ns,
    100.0 * COALESCE(SUM(off.ns), 0) / NULLIF(SUM(waiting.end_ts - waiting.ts), 0) AS off_cpu_pct,
    CAST(COALESCE(MAX(off.ns), 0) AS BIGINT) AS longest_ns
FROM waiting
LEFT JOIN off USING (rank, device, ts)
GROUP BY ALL
ORDER BY off_cpu_ns DESC, waiting.rank, waiting.cause
