-- One row per step, in order of time.
--
-- @param  limit              INTEGER = 1000  Rows to return.
-- @param  rank               BIGINT  = NULL  This rank only; all where NULL.
-- @param  phase              VARCHAR = NULL  Steps of this phase only; all where NULL.
-- @values phase              prefill decode mixed idle
-- @column rank               BIGINT   Rank.
-- @column step_id            BIGINT   Step, unique over all ranks.
-- @column number             BIGINT   Position among the steps of its rank, from 0.
-- @column phase              VARCHAR  prefill, decode, mixed or idle; NULL where the trace does not say.
-- @column graph_mode         VARCHAR  full, piecewise or none; NULL without kernels.
-- @column context_tokens     BIGINT   Prompt tokens processed.
-- @column generation_tokens  BIGINT   Tokens generated.
-- @column ts                 BIGINT   Start on the host, ns since the run's first event.
-- @column dur                BIGINT   Duration on the host, ns.
-- @column gpu_ts             BIGINT   Start of its first kernel, ns since the run's first event.
-- @column gpu_dur            BIGINT   From its first kernel's start to its last kernel's end, ns.
-- @column kernels            BIGINT   GPU activities.
-- @column kernel_ns          BIGINT   Their summed duration, ns.
-- @chart  timeline x=gpu_ts width=gpu_dur y=rank color=phase
-- @title  Steps of each rank
WITH activity AS (
    SELECT step_id, COUNT(*) AS kernels, CAST(SUM(dur) AS BIGINT) AS kernel_ns
    FROM kernel
    GROUP BY step_id
)
SELECT
    step.rank,
    step.step_id,
    step.number,
    step.phase,
    step.graph_mode,
    step.context_tokens,
    step.generation_tokens,
    step.ts,
    step.dur,
    step.gpu_ts,
    step.gpu_dur,
    COALESCE(activity.kernels, 0) AS kernels,
    COALESCE(activity.kernel_ns, 0) AS kernel_ns
FROM step
LEFT JOIN activity USING (step_id)
WHERE
    ($rank::BIGINT IS NULL OR step.rank = $rank::BIGINT)
    AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
ORDER BY step.ts, step.rank
LIMIT $limit::INTEGER
