-- One row per gap of the GPU, the longest first.
--
-- Use it to find the single longest idle times; idle.gap --gap N shows what the host did during the
-- Nth of them. Every gap has one cause. If the host launched the next kernel early in the gap,
-- launched_ns is how long that kernel was launched and had not started; the host is not the reason
-- for that part.
-- @param  limit             INTEGER = 20    Maximum number of rows.
-- @param  rank              BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  cause             VARCHAR = NULL  Only gaps of this cause; all by default.
-- @values cause             sync host dependency launch 'not recorded' unknown
-- @column rank              BIGINT   Rank.
-- @column device            BIGINT   Number of the device on its machine; NULL if all gaps of the rank are of one device.
-- @column ts                BIGINT   Start of the gap, ns since the run's first event.
-- @column dur               BIGINT   Duration of the gap, ns.
-- @column cause             VARCHAR  sync, host, dependency, launch, not recorded or unknown (see gap.cause).
-- @column launched_ns       BIGINT   Part of the gap after the next kernel's launch call returned, ns; NULL if unknown.
-- @column step_id           BIGINT   Step in whose GPU time the gap lies, or else of the kernel that ends it (gap.step_id).
-- @column phase             VARCHAR  Phase of that step.
-- @column previous_kernel   VARCHAR  Kernel whose end began the gap.
-- @column next_kernel       VARCHAR  Kernel whose start ended the gap.
-- @key    rank device ts dur cause step_id phase previous_kernel next_kernel
-- @empty  the trace has no GPU activity, or its GPUs were never idle
-- @chart  point x=ts y=dur color=cause
-- @title  Longest gaps of the GPU
WITH longest AS (
    SELECT *
    FROM gap
    WHERE
        ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
        AND ($cause::VARCHAR IS NULL OR cause = $cause::VARCHAR)
    ORDER BY dur DESC, rank, ts
    LIMIT $limit::INTEGER
)
SELECT
    longest.rank,
    device_if_several(longest.rank, longest.device) AS device,
    longest.ts, longest.dur, longest.cause,
    CASE
        WHEN host_clock.agrees THEN longest.dur - LEAST(GREATEST(launch.ts + launch.dur - longest.ts, 0), longest.dur)
    END AS launched_ns,
    longest.step_id, step.phase,
    previous_kernel.name AS previous_kernel,
    next_kernel.name AS next_kernel
FROM longest
LEFT JOIN step USING (step_id)
LEFT JOIN kernel AS previous_kernel ON longest.previous_kernel_id = previous_kernel.id
LEFT JOIN kernel AS next_kernel ON longest.next_kernel_id = next_kernel.id
LEFT JOIN launch ON next_kernel.launch_id = launch.id
LEFT JOIN host_clock ON longest.rank = host_clock.rank
ORDER BY longest.dur DESC, longest.rank, longest.ts
