-- One row per rank and cause of idle time, or per rank, phase and cause, with what the host did most of that time.
--
-- Use it to find out why a GPU was idle. The gaps of all causes add up exactly to the idle time of
-- the rank, of all its devices together. idle.host lists everything that the host did meanwhile.
--
-- - host: the launch call of the next kernel began after the gap had begun
-- - sync: like host, but the host was blocked in a synchronizing call for at least half of that time
-- - dependency: the next kernel was launched but waited for another stream
-- - launch: the next kernel was launched and had not started yet
-- - not recorded: records of kernels that may have run meanwhile are missing, so that the GPU may not have been idle
-- - unknown: the launch call of the next kernel is not in the trace, or the clocks of host and GPU do not agree
-- @param  by         VARCHAR = 'rank'  One row per rank, or per rank and phase; of each cause.
-- @param  rank       BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase      VARCHAR = NULL  Only gaps of steps of this phase; all by default.
-- @values by         rank phase
-- @values phase      prefill decode mixed idle
-- @column rank       BIGINT   Rank.
-- @column phase      VARCHAR  Phase of the gap's step; NULL unless by is phase.
-- @column cause      VARCHAR  sync, host, dependency, launch, not recorded or unknown.
-- @column gaps       BIGINT   Number of gaps.
-- @column idle_ns    BIGINT   Total duration of the gaps, ns.
-- @column share_pct  DOUBLE   Percent of the idle time of the rank that passes the filters.
-- @column p50_ns     DOUBLE   Median duration of a gap, ns.
-- @column max_ns     BIGINT   Longest gap, ns.
-- @column doing      VARCHAR  Innermost event in which the launching thread spent the most time; only for host and sync.
-- @column doing_pct  DOUBLE   Time in doing, percent of idle_ns.
-- @key    rank phase cause idle_ns share_pct doing doing_pct gaps
-- @empty  the trace has no GPU activity, or its GPUs were never idle
-- @chart  stacked x=idle_ns y=rank color=cause
-- @title  Why each rank's GPU was idle
WITH doing AS (
    SELECT rank, phase, cause, arg_max(name, ns) AS name, MAX(ns) AS ns
    FROM (
        SELECT rank, CASE WHEN $by::VARCHAR = 'phase' THEN phase END AS phase, cause, name, SUM(ns) AS ns
        FROM gap_host_event
        WHERE $phase::VARCHAR IS NULL OR phase = $phase::VARCHAR
        GROUP BY ALL
    )
    GROUP BY rank, phase, cause
),
summed AS (
    SELECT
        gap.rank,
        CASE WHEN $by::VARCHAR = 'phase' THEN step.phase END AS phase,
        gap.cause,
        COUNT(*) AS gaps,
        SUM(gap.dur) AS idle_ns,
        quantile_cont(gap.dur, 0.5) AS p50_ns,
        MAX(gap.dur) AS max_ns
    FROM gap
    LEFT JOIN step USING (step_id)
    WHERE
        ($rank::BIGINT IS NULL OR gap.rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
    GROUP BY ALL
)
SELECT
    summed.rank, summed.phase, summed.cause, summed.gaps,
    CAST(summed.idle_ns AS BIGINT) AS idle_ns,
    100.0 * summed.idle_ns / SUM(summed.idle_ns) OVER (PARTITION BY summed.rank) AS share_pct,
    summed.p50_ns, summed.max_ns,
    doing.name AS doing,
    100.0 * doing.ns / summed.idle_ns AS doing_pct
FROM summed
LEFT JOIN doing
    ON summed.rank = doing.rank
    AND summed.phase IS NOT DISTINCT FROM doing.phase
    AND summed.cause = doing.cause
ORDER BY summed.rank, summed.idle_ns DESC, summed.phase, summed.cause
