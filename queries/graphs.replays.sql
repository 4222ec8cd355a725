-- One row per graph launch: what it ran, how long it took to begin, and how much of it was padding.
--
-- A graph is captured for certain batch sizes; a batch is padded to the next one. captured_tokens
-- is NULL where the trace does not show it: it is read from the grid of the KV-cache write, which
-- has one block per token.
-- @param  rank            BIGINT = NULL  This rank only; all where NULL.
-- @column rank            BIGINT   Rank.
-- @column launch_id       BIGINT   Row of launch.
-- @column step_id         BIGINT   Step.
-- @column phase           VARCHAR  Its phase.
-- @column ts              BIGINT   Start of the call, ns since the run's first event.
-- @column call_ns         BIGINT   Duration of the call on the host, ns.
-- @column kernels         BIGINT   GPU activities of the replay.
-- @column layers          BIGINT   Model layers among them.
-- @column first_kernel_ns BIGINT   From the start of the call to the start of the first of them, ns.
-- @column replay_ns       BIGINT   From there to the end of the last one, ns.
-- @column busy_ns         BIGINT   Of these, ns in which one of them ran.
-- @column tokens          BIGINT   Tokens of the step.
-- @column captured_tokens BIGINT   Tokens that the graph was captured for.
-- @column padding_pct     DOUBLE   Share of the captured tokens that are padding, percent.
-- @chart  point x=ts y=replay_ns color=phase
-- @title  How long each graph replay took
WITH activity AS (
    SELECT
        *,
        ts + GREATEST(dur, 0) AS end_ts,
        GREATEST(0, ts + GREATEST(dur, 0) - GREATEST(ts, COALESCE(MAX(ts + GREATEST(dur, 0)) OVER (
            PARTITION BY launch_id ORDER BY ts, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), ts))) AS added_ns
    FROM kernel
    WHERE in_graph AND ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
),
replay AS (
    SELECT
        launch_id,
        COUNT(*) AS kernels,
        COUNT(DISTINCT layer) AS layers,
        MIN(ts) AS ts,
        MAX(end_ts) AS end_ts,
        CAST(SUM(added_ns) AS BIGINT) AS busy_ns,
        CAST(MAX(grid[1]) FILTER (name LIKE '%reshape_and_cache%') AS BIGINT) AS captured_tokens
    FROM activity
    GROUP BY launch_id
)
SELECT
    launch.rank,
    launch.id AS launch_id,
    launch.step_id,
    step.phase,
    launch.ts,
    launch.dur AS call_ns,
    replay.kernels,
    replay.layers,
    replay.ts - launch.ts AS first_kernel_ns,
    replay.end_ts - replay.ts AS replay_ns,
    replay.busy_ns,
    step.context_tokens + step.generation_tokens AS tokens,
    replay.captured_tokens,
    CASE
        WHEN replay.captured_tokens >= step.context_tokens + step.generation_tokens
            THEN 100.0 * (replay.captured_tokens - step.context_tokens - step.generation_tokens)
                / replay.captured_tokens
    END AS padding_pct
FROM replay
INNER JOIN launch ON replay.launch_id = launch.id
LEFT JOIN step USING (step_id)
ORDER BY launch.ts, launch.id
