-- One row per engine step as the scheduler saw it: queue, batch, KV cache and speculation; or per sample of a server's metrics endpoint.
--
-- The rows of a run come from scheduler.jsonl. A run without it has what steps.jsonl, metrics.json and
-- run.json give: each request of a step is one that runs, and takes the blocks of its tokens, which is
-- too much where requests share a prefix. There, drafted and accepted count the requests whose next
-- step follows at once, and are known only without asynchronous scheduling: with it, the numbers of
-- computed tokens are those before the drafts were judged.
-- @scope  run
-- @needs  integer_at, request, run_file, run_iteration, scheduled_request, scheduler_sample, step, trace
-- @empty_unless scheduler_sample
-- @empty_unless run_iteration
-- @column run                   VARCHAR  Path of the run directory.
-- @column rank                  BIGINT   First rank of the engine.
-- @column number                BIGINT   Position among the recorded iterations of the rank, from 0; NULL of a sample.
-- @column step_id               BIGINT   Step of the rank (step.step_id); NULL of a sample, and if the trace has no such step.
-- @column ts                    BIGINT   Time at which the scheduler had made the step, ns since the run's first event; that of the call of the worker without scheduler.jsonl; that of the sample.
-- @column source                VARCHAR  Where the numbers come from: scheduler, steps.jsonl or metrics endpoint.
-- @column running               BIGINT   Requests that hold a place in the batch.
-- @column waiting               BIGINT   Requests in the engine that wait for one; NULL if unknown.
-- @column in_flight             BIGINT   Requests of the workload that were sent and did not have all their tokens, those of other engines included; NULL without metrics.json.
-- @column kv_blocks_used        BIGINT   KV blocks that requests hold; what only the prefix cache has is free; NULL if unknown.
-- @column kv_blocks             BIGINT   All KV blocks of the engine.
-- @column preempted             BIGINT   Requests that lost their place and their blocks to others; of a sample, since the one before; NULL if unknown.
-- @column prefix_queried        BIGINT   Prompt tokens of requests that begin in the step; of a sample, since the one before; NULL if unknown, and without a prefix cache.
-- @column prefix_hits           BIGINT   Those of them whose keys and values existed.
-- @column scheduled_tokens      BIGINT   Tokens that the step processes; NULL of a sample.
-- @column max_scheduled_tokens  BIGINT   The most that a step may process (max_num_batched_tokens).
-- @column max_running           BIGINT   The most requests that may run (max_num_seqs).
-- @column drafted               BIGINT   Tokens that speculation drafted; of a sample, since the one before; NULL without speculation, and if unknown.
-- @column accepted              BIGINT   Those of them that the model confirmed; NULL also of the last steps, whose result comes later.
WITH base AS (SELECT MIN(base_time_ns) AS base_ns FROM trace),
engine AS (
    SELECT
        path AS run,
        TRY(integer_at(document, '$.engine_config.cache_config.num_gpu_blocks') - 1) AS kv_blocks,
        integer_at(document, '$.engine_config.cache_config.block_size') AS block_tokens,
        COALESCE(
            integer_at(document, '$.engine_config.scheduler_config.max_num_scheduled_tokens'),
            integer_at(document, '$.engine_config.scheduler_config.max_num_batched_tokens')
        ) AS max_scheduled_tokens,
        integer_at(document, '$.engine_config.scheduler_config.max_num_seqs') AS max_running,
        (document -> '$.engine_config.scheduler_config.async_scheduling') = 'false'
        AND json_type(document, '$.engine_config.speculative_config') = 'OBJECT' AS shows_drafts
    FROM run_file
),
replica AS (
    SELECT
        run,
        integer_at(entry, '$.rank') AS rank,
        MIN(integer_at(entry, '$.rank')) OVER (
            PARTITION BY run, COALESCE(integer_at(entry, '$.dp_rank'), 0)
        ) AS first_rank
    FROM (SELECT path AS run, UNNEST(from_json(document -> '$.ranks', '["JSON"]')) AS entry FROM run_file)
),
asked AS (
    SELECT
        run, request_id,
        ts AS sent_ts,
        CASE WHEN finished THEN last_token_ts ELSE 9223372036854775807 END AS end_ts,
        prompt_tokens
    FROM request
    WHERE profiled
),
scheduled AS (
    SELECT
        entry.run, entry.rank, entry.number, entry.request_id, entry.tokens, entry.agrees,
        CASE WHEN COALESCE(entry.is_possible, TRUE) THEN entry.computed_tokens END AS computed_tokens
    FROM scheduled_request AS entry
    LEFT JOIN replica USING (run, rank)
    WHERE
        COALESCE(replica.first_rank, entry.rank) = entry.rank
        AND entry.run NOT IN (SELECT run FROM scheduler_sample WHERE number IS NOT NULL)
),
advanced AS (
    SELECT
        scheduled.*,
        CASE
            WHEN
                -- A step without prompts has only requests that generate.
                COALESCE(scheduled.computed_tokens >= asked.prompt_tokens, generating.number IS NOT NULL)
                AND LEAD(scheduled.number) OVER of_request = scheduled.number + 1
                AND LEAD(scheduled.computed_tokens) OVER of_request > scheduled.computed_tokens
                THEN LEAD(scheduled.computed_tokens) OVER of_request - scheduled.computed_tokens
        END AS new_tokens
    FROM scheduled
    LEFT JOIN asked USING (run, request_id)
    LEFT JOIN (
        SELECT DISTINCT rank, number FROM step WHERE source = 'execute_context' AND phase = 'decode'
    ) AS generating
        ON scheduled.rank = generating.rank AND scheduled.number = generating.number AND COALESCE(scheduled.agrees, TRUE)
    WINDOW of_request AS (PARTITION BY scheduled.run, scheduled.rank, scheduled.request_id ORDER BY scheduled.number)
),
counted AS (
    SELECT
        advanced.run, advanced.rank, advanced.number,
        COUNT(advanced.request_id) AS running,
        COALESCE(SUM(advanced.tokens), 0) AS scheduled_tokens,
        COALESCE(SUM(CEIL((advanced.computed_tokens + advanced.tokens) / engine.block_tokens)), 0) AS blocks,
        COUNT(advanced.computed_tokens) = COUNT(advanced.request_id) AS is_computed,
        SUM(advanced.tokens - 1) FILTER (advanced.new_tokens IS NOT NULL) AS drafted,
        SUM(advanced.new_tokens - 1) AS accepted
    FROM advanced
    INNER JOIN engine USING (run)
    GROUP BY advanced.run, advanced.rank, advanced.number
),
noted AS (
    SELECT * EXCLUDE unix_ns, unix_ns - base.base_ns AS ts,
        CASE WHEN number IS NULL THEN 'metrics endpoint' ELSE 'scheduler' END AS source
    FROM scheduler_sample
    CROSS JOIN base
    UNION ALL BY NAME
    SELECT
        counted.run, counted.rank, counted.number,
        run_iteration.begin_unix_ns - base.base_ns AS ts,
        'steps.jsonl' AS source,
        counted.running,
        CASE WHEN counted.is_computed AND counted.blocks <= engine.kv_blocks THEN TRY_CAST(counted.blocks AS BIGINT) END AS kv_blocks_used,
        engine.kv_blocks,
        TRY_CAST(counted.scheduled_tokens AS BIGINT) AS scheduled_tokens,
        engine.max_scheduled_tokens, engine.max_running,
        CASE WHEN engine.shows_drafts THEN TRY_CAST(counted.drafted AS BIGINT) END AS drafted,
        CASE WHEN engine.shows_drafts THEN TRY_CAST(counted.accepted AS BIGINT) END AS accepted
    FROM counted
    INNER JOIN run_iteration USING (run, rank, number)
    INNER JOIN engine USING (run)
    CROSS JOIN base
),
numbered AS (
    SELECT DISTINCT entry.run, entry.rank, entry.number, step.step_id
    FROM scheduled_request AS entry
    INNER JOIN step ON entry.rank = step.rank AND entry.number = step.number
    WHERE COALESCE(entry.agrees, TRUE) AND step.source = 'execute_context'
),
in_flight AS (
    SELECT
        noted.run, noted.rank, noted.number, noted.ts,
        COUNT(*) FILTER (asked.sent_ts <= noted.ts AND asked.end_ts > noted.ts) AS requests
    FROM noted
    INNER JOIN asked USING (run)
    GROUP BY noted.run, noted.rank, noted.number, noted.ts
)
SELECT
    noted.run, noted.rank, noted.number, numbered.step_id, noted.ts, noted.source, noted.running, noted.waiting,
    in_flight.requests AS in_flight,
    noted.kv_blocks_used, noted.kv_blocks, noted.preempted, noted.prefix_queried, noted.prefix_hits,
    noted.scheduled_tokens, noted.max_scheduled_tokens, noted.max_running, noted.drafted, noted.accepted
FROM noted
LEFT JOIN numbered USING (run, rank, number)
LEFT JOIN in_flight
    ON noted.run = in_flight.run AND noted.rank = in_flight.rank AND noted.ts = in_flight.ts
    AND noted.number IS NOT DISTINCT FROM in_flight.number
ORDER BY noted.run, noted.rank, noted.ts
