-- One row per gap of the GPU, the longest first.
--
-- What the host did inside the Nth of them: idle.gap --gap N.
-- A gap has one cause, also where the host issued the next kernel early in it: launched_ns says for
-- how long that kernel had been launched and did not start, for which the host's work is no reason.
-- @param  limit             INTEGER = 20    Rows to return.
-- @param  rank              BIGINT  = NULL  This rank only; all where NULL.
-- @param  cause             VARCHAR = NULL  Gaps of this cause only; all where NULL.
-- @values cause             sync host dependency launch unknown
-- @column rank              BIGINT   Rank.
-- @column ts                BIGINT   Start of the gap, ns since the run's first event.
-- @column dur               BIGINT   Duration, ns.
-- @column cause             VARCHAR  sync, host, dependency, launch or unknown (see the comment on gap.cause).
-- @column launched_ns       BIGINT   Of it, after the next kernel's launch call had returned, ns; NULL where the trace has no such call.
-- @column step_id           BIGINT   Step of the kernel that ends the gap.
-- @column phase             VARCHAR  Phase of that step.
-- @column previous_kernel   VARCHAR  Kernel that ended when the gap began.
-- @column next_kernel       VARCHAR  Kernel that ended the gap.
-- @chart  point x=ts y=dur color=cause
-- @title  The longest gaps of the GPU
SELECT
    gap.rank,
    gap.ts,
    gap.dur,
    gap.cause,
    gap.dur - LEAST(GREATEST(launch.ts + launch.dur - gap.ts, 0), gap.dur) AS launched_ns,
    gap.step_id,
    step.phase,
    previous_kernel.name AS previous_kernel,
    next_kernel.name AS next_kernel
FROM gap
LEFT JOIN step USING (step_id)
LEFT JOIN kernel AS previous_kernel ON gap.previous_kernel_id = previous_kernel.id
LEFT JOIN kernel AS next_kernel ON gap.next_kernel_id = next_kernel.id
LEFT JOIN launch ON next_kernel.launch_id = launch.id
WHERE
    ($rank::BIGINT IS NULL OR gap.rank = $rank::BIGINT)
    AND ($cause::VARCHAR IS NULL OR gap.cause = $cause::VARCHAR)
ORDER BY gap.dur DESC, gap.rank, gap.ts
LIMIT $limit::INTEGER
