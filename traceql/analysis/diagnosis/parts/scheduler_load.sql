-- One row: how many requests run and wait, how full the KV cache is, and what holds waiting requests back.
--
-- A request that waits is held back by the KV cache if it is nine tenths full while fewer requests run than
-- may, and by max_num_seqs if as many run. Where the scheduler does not say what waits, it is what the clients
-- sent and the step does not have; of several replicas, that is not known.
-- @kind   scratch
-- @scope  run
-- @needs  engine_setting, engine_step, integer_at, request_step, scheduler_step, step
-- @column is_program     BOOLEAN  Whether the steps are those that a program names to the profiler, as in training, not an engine's.
-- @column steps          BIGINT   Steps or samples with requests that run.
-- @column known          BIGINT   Those of which it is known how many requests wait.
-- @column running        DOUBLE   Requests that run, on average.
-- @column queued         DOUBLE   Requests that wait, on average.
-- @column most_queued    BIGINT   The most that wait.
-- @column max_running    BIGINT   The most that may run (max_num_seqs); NULL if unknown.
-- @column kv_pct         DOUBLE   The most of the KV cache that requests hold, percent; NULL if unknown.
-- @column full_steps     BIGINT   Steps in which requests wait, fewer run than may, and the KV cache is 90% full.
-- @column full_running   DOUBLE   Requests that run in those, on average.
-- @column full_queued    DOUBLE   Requests that wait in those, on average.
-- @column limit_steps    BIGINT   Steps in which requests wait and max_num_seqs run.
-- @column limit_queued   DOUBLE   Requests that wait in those, on average.
-- @column limit_kv_pct   DOUBLE   Of the KV cache that requests hold in those, percent, on average.
-- @column preempted      BIGINT   Requests that lost their blocks to others; NULL if unknown.
-- @column again_tokens   BIGINT   Tokens that were computed again for them; NULL if unknown.
-- @column tokens         BIGINT   Tokens that steps processed.
-- @column ts             BIGINT   Time of the step in which most requests wait, ns since the run's first event.
-- @column rank           BIGINT   Rank of that step.
-- @column more_kv        VARCHAR  What gives the KV cache more room: a line to paste; NULL without the engine configuration.
WITH seen AS (
    SELECT
        scheduler_step.* EXCLUDE (max_running),
        COALESCE(scheduler_step.max_running, setting.max_num_seqs) AS max_running,
        COALESCE(waiting, CASE WHEN COALESCE(setting.dp, 1) = 1 THEN GREATEST(in_flight - running, 0) END) AS queued,
        100.0 * kv_blocks_used / NULLIF(kv_blocks, 0) AS kv_pct
    FROM scheduler_step
    CROSS JOIN engine_setting AS setting
    WHERE running > 0
),
judged AS (
    SELECT
        *,
        queued >= 1 AND running < max_running AND kv_pct >= 90 AS is_full,
        queued >= 1 AND running >= max_running AS is_limited
    FROM seen
),
load AS (
    SELECT
        COUNT(*) AS steps,
        COUNT(queued) AS known,
        AVG(running) AS running,
        AVG(queued) AS queued,
        MAX(queued) AS most_queued,
        MAX(max_running) AS max_running,
        MAX(kv_pct) AS kv_pct,
        COUNT(*) FILTER (is_full) AS full_steps,
        AVG(running) FILTER (is_full) AS full_running,
        AVG(queued) FILTER (is_full) AS full_queued,
        COUNT(*) FILTER (is_limited) AS limit_steps,
        AVG(queued) FILTER (is_limited) AS limit_queued,
        AVG(kv_pct) FILTER (is_limited) AS limit_kv_pct,
        CAST(SUM(preempted) AS BIGINT) AS preempted,
        CAST(SUM(scheduled_tokens) AS BIGINT) AS tokens,
        arg_max(ts, queued) AS ts,
        arg_max(rank, queued) AS rank
    FROM judged
),
-- A request of which fewer tokens are computed than before has lost its blocks.
before AS (
    SELECT
        request_step.computed_tokens AS computed,
        LAG(request_step.computed_tokens) OVER of_request AS computed_before,
        LAG(request_step.tokens) OVER of_request AS tokens_before
    FROM request_step
    INNER JOIN step USING (rank, step_id)
    WINDOW of_request AS (PARTITION BY request_step.run, request_step.request_id, request_step.rank ORDER BY step.number)
    QUALIFY request_step.rank = MIN(request_step.rank) OVER (PARTITION BY request_step.run, request_step.request_id)
),
again AS (
    SELECT
        COUNT(*) FILTER (computed < computed_before) AS requests,
        CAST(SUM(computed_before + tokens_before - computed) FILTER (computed < computed_before) AS BIGINT) AS tokens,
        COUNT(computed_before) AS known
    FROM before
),
room AS (
    SELECT
        integer_at(config, '$.cache_config.num_gpu_blocks_override') AS blocks,
        kv_cache_bytes AS bytes,
        -- What would hold the waiting requests too, in steps of 256 MiB.
        CAST(CEIL(
            kv_cache_bytes * COALESCE((load.full_running + load.full_queued) / load.full_running, 1.25) / (1 << 28)
        ) AS BIGINT) * (1 << 28) AS needed,
        gpu_memory_utilization AS share,
        CASE
            WHEN COALESCE(starts_with(kv_cache_dtype, 'auto') OR kv_cache_dtype IN ('bfloat16', 'float16'), FALSE)
                THEN '--kv-cache-dtype fp8 (half the bytes a token; check the answers)'
        END AS fp8,
        has_config
    FROM engine_setting
    CROSS JOIN load
)
SELECT
    (SELECT COALESCE(BOOL_AND(source = 'ProfilerStep'), FALSE) FROM engine_step) AS is_program,
    load.* EXCLUDE (preempted, tokens, ts, rank),
    COALESCE(load.preempted, CASE WHEN again.known > 0 THEN again.requests END) AS preempted,
    CASE WHEN again.known > 0 THEN COALESCE(again.tokens, 0) END AS again_tokens,
    load.tokens, load.ts, load.rank,
    CASE
        WHEN NOT room.has_config THEN NULL
        WHEN room.blocks IS NOT NULL THEN format('Leave out --num-gpu-blocks-override (now {})', room.blocks)
        ELSE NULLIF(concat_ws(
            ', or ',
            CASE
                WHEN room.bytes IS NOT NULL
                    THEN format('--kv-cache-memory-bytes {} (now {}; or leave it out)', room.needed, room.bytes)
                WHEN room.share < 0.95 THEN format('--gpu-memory-utilization 0.95 (now {})', room.share)
            END,
            room.fp8,
            CASE WHEN room.bytes IS NULL AND room.share >= 0.95 THEN 'more tensor-parallel ranks (--tensor-parallel-size)' END
        ), '')
    END AS more_kv
FROM load
CROSS JOIN again
CROSS JOIN room
