-- One row per step and rank: when the rank's GPU worked on the step, all ranks on one clock.
--
-- Use it to see how the ranks proceed relative to each other, for example the stages of a pipeline.
-- The steps of one engine iteration have the same iteration number on all ranks. It comes from
-- matched operations if there are any, otherwise from the position of the step (source). ts, dur
-- and skew_ns are NULL for a step without kernels.
-- @param  limit       INTEGER = 1000  Maximum number of rows.
-- @param  phase       VARCHAR = NULL  Only steps of this phase; all by default.
-- @values phase       prefill decode mixed idle
-- @column iteration   BIGINT   Engine iteration; the same number on all ranks, from 0.
-- @column rank        BIGINT   Rank.
-- @column tp_rank     BIGINT   Tensor-parallel rank; NULL if unknown, as are the next two.
-- @column pp_rank     BIGINT   Pipeline stage.
-- @column dp_rank     BIGINT   Data-parallel replica.
-- @column step_id     BIGINT   Step.
-- @column phase       VARCHAR  prefill, decode, mixed or idle; NULL if unknown.
-- @column ts          BIGINT   Start of its first kernel on the reference clock, ns since the run's first event.
-- @column dur         BIGINT   From the start of its first kernel to the end of its last one, ns.
-- @column skew_ns     BIGINT   Delay after the first rank that began the iteration, ns; NULL if no other rank is loaded.
-- @column source      VARCHAR  How the iteration is known: operations or position.
-- @column layout_source VARCHAR  How the position of the rank in the layout is known.
-- @key    iteration rank phase ts dur skew_ns step_id
-- @empty  the trace has no steps in the phase, or the layout of its ranks is unknown
-- @chart  point x=iteration y=skew_ns color=rank
-- @title  How far each rank began a step behind the first
SELECT
    aligned_step.iteration, aligned_step.rank, layout.tp_rank, layout.pp_rank, layout.dp_rank,
    aligned_step.step_id, step.phase, aligned_step.ts, aligned_step.dur,
    CASE
        WHEN COUNT(DISTINCT aligned_step.rank) OVER (PARTITION BY aligned_step.iteration) > 1
            THEN aligned_step.ts - MIN(aligned_step.ts) OVER (PARTITION BY aligned_step.iteration)
    END AS skew_ns,
    aligned_step.source,
    layout.source AS layout_source
FROM aligned_step
INNER JOIN step USING (step_id)
INNER JOIN layout ON aligned_step.rank = layout.rank
WHERE $phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR
ORDER BY aligned_step.iteration, aligned_step.rank
LIMIT $limit::INTEGER
