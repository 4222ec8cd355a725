-- One row per step and rank: when its GPU worked on it, all ranks on one clock.
--
-- Steps of one engine iteration have one number on all ranks: as matched operations say, else by
-- their position (source).
-- @param  limit       INTEGER = 1000  Rows to return.
-- @param  phase       VARCHAR = NULL  Steps of this phase only; all where NULL.
-- @values phase       prefill decode mixed idle
-- @column iteration   BIGINT   Engine iteration, the same number on all ranks, from 0.
-- @column rank        BIGINT   Rank.
-- @column tp_rank     BIGINT   Its tensor-parallel rank; NULL, as the next two, where that is not known.
-- @column pp_rank     BIGINT   Its pipeline stage.
-- @column dp_rank     BIGINT   Its data-parallel replica.
-- @column step_id     BIGINT   Step.
-- @column phase       VARCHAR  prefill, decode, mixed or idle; NULL where the trace does not say.
-- @column ts          BIGINT   Start of its first kernel by the first rank's clock, ns since the run's first event; NULL without kernels.
-- @column dur         BIGINT   From there to the end of its last kernel, ns.
-- @column skew_ns     BIGINT   Behind the first rank to begin the iteration, ns.
-- @column source      VARCHAR  How the iteration is known: operations or position.
-- @column layout_source VARCHAR  How the ranks' places are known.
-- @chart  timeline x=ts width=dur y=rank color=phase
-- @title  When each rank worked on which step
SELECT
    aligned_step.iteration,
    aligned_step.rank,
    layout.tp_rank,
    layout.pp_rank,
    layout.dp_rank,
    aligned_step.step_id,
    step.phase,
    aligned_step.ts,
    aligned_step.dur,
    aligned_step.ts - MIN(aligned_step.ts) OVER (PARTITION BY aligned_step.iteration) AS skew_ns,
    aligned_step.source,
    layout.source AS layout_source
FROM aligned_step
INNER JOIN step USING (step_id)
INNER JOIN layout ON aligned_step.rank = layout.rank
WHERE $phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR
ORDER BY aligned_step.iteration, aligned_step.rank
LIMIT $limit::INTEGER
