-- One row per CUDA graph launch: what it ran, how long it took, and how much of it was padding.
--
-- Use it to see whether graph replays start late or compute padding. A graph is captured for
-- certain batch sizes, and a batch is padded to the next one. captured_tokens is read from the grid
-- of the KV-cache write, which has one block per token; it is NULL if the trace has no such kernel.
-- @param  rank            BIGINT = NULL  Only this rank; all ranks by default.
-- @column rank            BIGINT   Rank.
-- @column launch_id       BIGINT   Launch call; row of launch.
-- @column step_id         BIGINT   Step.
-- @column phase           VARCHAR  Phase of the step: prefill, decode, mixed or idle.
-- @column ts              BIGINT   Start of the launch call, ns since the run's first event.
-- @column call_ns         BIGINT   Duration of the launch call on the host, ns.
-- @column kernels         BIGINT   GPU activities in the replay; NULL if they were not recorded, but the replay as a whole.
-- @column layers          BIGINT   Model layers in the replay; NULL like kernels.
-- @column first_kernel_ns BIGINT   From the start of the launch call to the start of the first GPU activity, ns; NULL if the clocks of host and GPU do not agree.
-- @column replay_ns       BIGINT   From the start of the first GPU activity to the end of the last one, ns.
-- @column busy_ns         BIGINT   Part of replay_ns in which an activity of the replay ran, ns.
-- @column tokens          BIGINT   Tokens of the step.
-- @column captured_tokens BIGINT   Tokens that the graph was captured for.
-- @column padding_pct     DOUBLE   Padding in percent of the captured tokens.
-- @key    rank step_id phase replay_ns busy_ns call_ns first_kernel_ns padding_pct kernels
-- @empty  no CUDA graph was launched in the trace: the program ran eagerly
-- @chart  point x=ts y=replay_ns color=phase
-- @title  Duration of each graph replay
WITH activity AS (
    SELECT
        launch_id, layer, ts,
        ts + GREATEST(dur, 0) AS end_ts,
        category = 'graph' AS is_unrecorded,
        CASE WHEN has_block_per_token(name) THEN grid[1] END AS captured_tokens,
        GREATEST(0, ts + GREATEST(dur, 0) - GREATEST(ts, COALESCE(MAX(ts + GREATEST(dur, 0)) OVER (
            PARTITION BY launch_id ORDER BY ts, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), ts))) AS added_ns
    FROM kernel
    WHERE in_graph AND ($rank::BIGINT IS NULL OR rank = $rank::BIGINT)
),
replay AS (
    SELECT
        launch_id,
        BOOL_OR(is_unrecorded) AS is_unrecorded,
        COUNT(*) AS kernels,
        COUNT(DISTINCT layer) AS layers,
        MIN(ts) AS ts,
        MAX(end_ts) AS end_ts,
        CAST(SUM(added_ns) AS BIGINT) AS busy_ns,
        CAST(MAX(captured_tokens) AS BIGINT) AS captured_tokens
    FROM activity
    GROUP BY launch_id
)
SELECT
    launch.rank,
    launch.id AS launch_id,
    launch.step_id, step.phase, launch.ts,
    launch.dur AS call_ns,
    CASE WHEN NOT replay.is_unrecorded THEN replay.kernels END AS kernels,
    CASE WHEN NOT replay.is_unrecorded THEN replay.layers END AS layers,
    CASE WHEN host_clock.agrees THEN replay.ts - launch.ts END AS first_kernel_ns,
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
LEFT JOIN host_clock ON launch.rank = host_clock.rank
LEFT JOIN step USING (step_id)
ORDER BY launch.ts, launch.id
