-- One row per step that took far longer than its peers, by the time it lost: with the trace to open.
--
-- Use it to find steps to inspect in Perfetto: traceql ui PATH, at ts. Peers are the
-- steps of one phase and one number of rows, on one pipeline stage, of all runs of one set-up
-- (lake_run.setup). A deviation is 1.4826 x the median distance from their median (MAD), at least 1% of
-- it. Ranks of one step are rows of their own.
-- @param  limit       INTEGER = 20    Maximum number of rows.
-- @param  z           DOUBLE  = 5.0   Deviations from which a step is an outlier.
-- @param  phase       VARCHAR = NULL  Only steps of this phase; all by default.
-- @values phase       prefill decode mixed idle unknown
-- @column run         VARCHAR  Run in the lake.
-- @column rank        BIGINT   Rank.
-- @column number      BIGINT   Position of the step among those of its rank, from 0.
-- @column phase       VARCHAR  Phase.
-- @column rows_to     BIGINT   Rows that its kernels run, rounded up; NULL if unknown.
-- @column gpu_ns      BIGINT   GPU span of the step, ns.
-- @column typical_ns  DOUBLE   Median of its peers, ns.
-- @column lost_ns     DOUBLE   gpu_ns - typical_ns, ns.
-- @column times       DOUBLE   gpu_ns / typical_ns.
-- @column z           DOUBLE   Deviations from the median of its peers.
-- @column peers       BIGINT   Steps that it was compared with, itself included.
-- @column wait_ns     BIGINT   Time of the step in which collectives only waited for a late rank, ns.
-- @column idle_ns     BIGINT   Time of the step in which nothing ran, ns.
-- @column host        VARCHAR  Host of the rank; NULL if unknown.
-- @column gpu         VARCHAR  GPU of the rank; NULL if unknown.
-- @column ts          BIGINT   Start of its first kernel, ns since the run's first event.
-- @column step_id     BIGINT   Step in the run (step.step_id).
-- @column path        VARCHAR  Trace of the rank, when it was loaded.
-- @column source      VARCHAR  Path that was added.
-- @key    run rank number phase gpu_ns typical_ns times path z rows_to wait_ns idle_ns
-- @empty  no step is that far from its peers, of which there must be eight
-- @chart  bar x=lost_ns y=run,rank,number color=phase
-- @title  Steps that took far longer than their peers
WITH placed AS (
    SELECT
        step_summary.*, lake_run.setup, lake_run.source, rank_summary.pp_rank, rank_summary.host,
        rank_summary.gpu, rank_summary.path
    FROM step_summary
    INNER JOIN lake_run USING (run)
    INNER JOIN rank_summary ON step_summary.run = rank_summary.run AND step_summary.rank = rank_summary.rank
    WHERE $phase::VARCHAR IS NULL OR step_summary.phase = $phase::VARCHAR
),
compared AS (
    SELECT
        *,
        COUNT(*) OVER same_work AS peers,
        MEDIAN(gpu_ns) OVER same_work AS typical_ns
    FROM placed
    WHERE setup IS NOT NULL AND pp_rank IS NOT NULL AND phase IS NOT NULL
    WINDOW same_work AS (PARTITION BY setup, pp_rank, phase, rows_to)
    QUALIFY peers >= 8
),
measured AS (
    SELECT
        *,
        MEDIAN(ABS(gpu_ns - typical_ns)) OVER (PARTITION BY setup, pp_rank, phase, rows_to) AS mad_ns,
        (gpu_ns - typical_ns) / NULLIF(GREATEST(1.4826 * mad_ns, 0.01 * typical_ns), 0) AS z
    FROM compared
)
SELECT
    run, rank, number, phase, rows_to, gpu_ns, typical_ns,
    gpu_ns - typical_ns AS lost_ns,
    gpu_ns / typical_ns AS times,
    z, peers, wait_ns, idle_ns, host, gpu, ts, step_id, path, source
FROM measured
WHERE z >= $z::DOUBLE
ORDER BY lost_ns DESC, run, rank, number
LIMIT $limit::INTEGER
