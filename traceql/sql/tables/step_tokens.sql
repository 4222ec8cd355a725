-- One row per step whose tokens are known: how many it processes, how many rows its kernels run, and how long the keys and values of its requests are.
--
-- In attention, each token attends to the tokens of its request up to itself: a request with sq tokens
-- in the step, and sk of them and before them, has sq * sk - sq * (sq - 1) / 2 pairs. The four sums
-- are known for all requests of a step or for none; the annotation wins over steps.jsonl, because the
-- worker made it of what it ran.
-- @schema main
-- @scope  run
-- @needs  has_block_per_token, kernel, step, step_kv_length
-- @empty_unless step
-- @column rank                  BIGINT   Rank that ran the step.
-- @column step_id               BIGINT   Step (step.step_id).
-- @column context_requests      BIGINT   Number of requests whose prompt is processed.
-- @column context_tokens        BIGINT   Prompt tokens processed, of all requests together.
-- @column generation_requests   BIGINT   Number of requests that generate tokens.
-- @column generation_tokens     BIGINT   Tokens processed for requests that generate: one each, and those that speculation drafted.
-- @column tokens                BIGINT   Tokens processed, of both kinds: the useful rows of the step.
-- @column executed_tokens       BIGINT   Rows that the kernels run, with the padding of CUDA graphs: the blocks of the KV-cache write; NULL without one.
-- @column logit_rows            BIGINT   Rows of the last product, which makes logits: one per request with a prompt, and one per generated token.
-- @column context_pairs         BIGINT   Pairs of a token and a token it attends to, of the requests whose prompt is processed; NULL if unknown.
-- @column generation_pairs      BIGINT   The same of the requests that generate; NULL if unknown.
-- @column context_kv_tokens     BIGINT   Tokens whose keys and values attention reads, those of the step included, summed over the requests whose prompt is processed; NULL if unknown.
-- @column generation_kv_tokens  BIGINT   The same of the requests that generate; NULL if unknown.
-- @column kv_source             VARCHAR  Where the four sums come from: annotation (vLLM's detailed one) or steps.jsonl (of the run directory); NULL if they are unknown.
WITH run_rows AS (
    SELECT step_id, CAST(MAX(grid[1]) AS BIGINT) AS executed_tokens
    FROM kernel
    WHERE has_block_per_token(name)
    GROUP BY step_id
),
chosen_length AS (
    SELECT *
    FROM step_kv_length
    QUALIFY
        ROW_NUMBER() OVER (PARTITION BY step_id ORDER BY kv_source = 'annotation' DESC) = 1
)
SELECT
    step.rank, step.step_id, step.context_requests, step.context_tokens, step.generation_requests,
    step.generation_tokens,
    step.context_tokens + step.generation_tokens AS tokens,
    run_rows.executed_tokens,
    step.context_requests + step.generation_tokens AS logit_rows,
    chosen_length.context_pairs, chosen_length.generation_pairs, chosen_length.context_kv_tokens,
    chosen_length.generation_kv_tokens, chosen_length.kv_source
FROM step
LEFT JOIN run_rows USING (step_id)
LEFT JOIN chosen_length USING (step_id)
WHERE
    TRY(step.context_tokens + step.generation_tokens) IS NOT NULL
    AND TRY(step.context_requests + step.generation_tokens) IS NOT NULL
ORDER BY step.step_id
