-- One row per step, in order of time; for each device, if its rank has several.
--
-- Use it to see how the steps of a run differ, and to look up the step_id that --step takes in
-- other commands. A step is one engine iteration of one rank on one device.
-- @param  limit              INTEGER = 1000  Maximum number of rows.
-- @param  rank               BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase              VARCHAR = NULL  Only steps of this phase; all by default.
-- @values phase              prefill decode mixed idle
-- @column rank               BIGINT   Rank.
-- @column device             BIGINT   Number of the device on its machine; NULL if the rank has only one.
-- @column step_id            BIGINT   Step; unique across all ranks.
-- @column number             BIGINT   Position of the step in its rank, from 0.
-- @column phase              VARCHAR  prefill, decode, mixed or idle; NULL if unknown.
-- @column graph_mode         VARCHAR  full, piecewise or none; NULL without kernels, or if unknown.
-- @column context_tokens     BIGINT   Prompt tokens processed.
-- @column generation_tokens  BIGINT   Tokens generated.
-- @column ts                 BIGINT   Start on the host, ns since the run's first event.
-- @column dur                BIGINT   Duration on the host, ns.
-- @column gpu_ts             BIGINT   Start of its first kernel, or the end of the step before if that is later, ns since the run's first event.
-- @column gpu_dur            BIGINT   From gpu_ts to the end of its last kernel, ns.
-- @column kernels            BIGINT   Number of GPU activities.
-- @column kernel_ns          BIGINT   Total duration of the GPU activities, ns.
-- @key    rank device step_id phase gpu_ts gpu_dur graph_mode context_tokens generation_tokens kernel_ns number
-- @empty  the trace has no steps of this rank and phase
-- @chart  timeline x=gpu_ts width=gpu_dur y=rank,device color=phase
-- @title  Steps of each rank
WITH activity AS (
    SELECT step_id, COUNT(*) AS kernels, CAST(SUM(dur) AS BIGINT) AS kernel_ns
    FROM kernel
    GROUP BY step_id
)
SELECT
    step.rank,
    device_if_several(step.rank, step.device) AS device,
    step.step_id, step.number, step.phase, step.graph_mode, step.context_tokens,
    step.generation_tokens, step.ts, step.dur, step.gpu_ts, step.gpu_dur,
    COALESCE(activity.kernels, 0) AS kernels,
    COALESCE(activity.kernel_ns, 0) AS kernel_ns
FROM step
LEFT JOIN activity USING (step_id)
WHERE
    ($rank::BIGINT IS NULL OR step.rank = $rank::BIGINT)
    AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
ORDER BY step.ts, step.step_id
LIMIT $limit::INTEGER
