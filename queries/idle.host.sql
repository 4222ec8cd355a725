-- One row per rank, cause and event name: what the host did while the GPU waited for it.
--
-- Use it to see which host work keeps the GPU idle. It covers the gaps with the causes host and
-- sync, and counts the self time of each operator, annotation, Python frame and runtime call on the
-- launching thread. The times add up to these gaps. Calls that differ only in a number or hash have
-- one name: execute_model is the annotation of a vLLM step, CompiledFxGraph a compiled part of the
-- model. A gap counts as a whole, including the part after the launch call of the next kernel (see
-- launched_ns in idle.gaps). idle.gap shows a single gap.
-- @param  limit      INTEGER = 30    Maximum number of rows.
-- @param  by         VARCHAR = 'rank'  One row per rank, or per rank and phase; of each cause and event name.
-- @param  rank       BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase      VARCHAR = NULL  Only gaps of steps of this phase; all by default.
-- @values by         rank phase
-- @values phase      prefill decode mixed idle
-- @column rank       BIGINT   Rank.
-- @column phase      VARCHAR  Phase of the gap's step; NULL unless by is phase.
-- @column cause      VARCHAR  host or sync.
-- @column idle_ns    BIGINT   Self time of these events in the gaps, ns.
-- @column share_pct  DOUBLE   Percent of the rank's idle time, of all causes and phases.
-- @column doing      VARCHAR  What the host did; in brackets if the thread was in no event, with what to record to know more.
-- @column cat        VARCHAR  Event category: cpu_op, user_annotation, python_function, cuda_runtime ...
-- @key    rank phase cause doing idle_ns share_pct
-- @empty  no gap has the cause host or sync: the GPU never waited for its host
-- @chart  bar x=idle_ns y=doing color=cause
-- @title  What the host did while the GPU waited for it
WITH idle AS (
    SELECT rank, SUM(dur) AS ns FROM gap GROUP BY rank
),
summed AS (
    SELECT
        rank,
        CASE WHEN $by::VARCHAR = 'phase' THEN phase END AS phase,
        cause, name, cat,
        SUM(ns) AS ns
    FROM gap_host_event
    WHERE
        ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
        AND ($phase::VARCHAR IS NULL OR phase = $phase::VARCHAR)
    GROUP BY ALL
)
SELECT
    summed.rank, summed.phase, summed.cause,
    CAST(summed.ns AS BIGINT) AS idle_ns,
    100.0 * summed.ns / idle.ns AS share_pct,
    summed.name AS doing,
    summed.cat
FROM summed
INNER JOIN idle USING (rank)
ORDER BY summed.ns DESC, summed.rank, summed.phase, summed.cause, summed.name
LIMIT $limit::INTEGER
