-- One row per rank and size of step: the steps with the same phase, numbers of requests and tokens, and with or without graphs.
--
-- Its sizes and durations are means over its typical steps: the half of the steps whose durations on
-- the GPU are nearest to the median. Table step_class_time has what they spent their time on.
-- @scope  run
-- @needs  step, step_tokens
-- @empty_unless step_tokens
-- @column class_id              BIGINT    Id of the class.
-- @column rank                  BIGINT    Rank.
-- @column phase                 VARCHAR   prefill, decode or mixed.
-- @column in_graph              BOOLEAN   Whether graphs were replayed (step.graph_mode is full or piecewise).
-- @column in_full_graph         BOOLEAN   Whether attention was replayed too (step.graph_mode is full): the host launches next to nothing.
-- @column context_requests      BIGINT    Number of requests whose prompt is processed.
-- @column generation_requests   BIGINT    Number of requests that generate tokens.
-- @column batch                 BIGINT    Number of requests of both kinds.
-- @column tokens                BIGINT    Tokens processed: the useful rows.
-- @column executed_tokens       BIGINT    Rows that the kernels run, with padding; if unknown, as tokens.
-- @column logit_rows            BIGINT    Rows of the last product (see step_tokens).
-- @column context_pairs         DOUBLE    Mean pairs of queries and keys of prompts; NULL if unknown.
-- @column generation_pairs      DOUBLE    The same of requests that generate; NULL if unknown.
-- @column kv_tokens             DOUBLE    Mean number of tokens whose keys and values are read, of all requests together; NULL if unknown.
-- @column steps                 BIGINT    Number of steps.
-- @column is_frequent           BOOLEAN   Whether it has at least a quarter of the steps of the most frequent class of the rank with this phase and in_graph: the few steps of a rare class may be odd ones.
-- @column step_ids              BIGINT[]  The typical ones.
-- @column gpu_ns                DOUBLE    Mean duration of a typical step on the GPU, ns.
WITH sized AS (
    SELECT
        step_tokens.*, step.phase,
        step.graph_mode <> 'none' AS in_graph,
        step.graph_mode = 'full' AS in_full_graph,
        step.gpu_dur,
        COALESCE(step_tokens.executed_tokens, step_tokens.tokens) AS rows_run
    FROM step_tokens
    INNER JOIN step USING (step_id)
    WHERE step.gpu_dur IS NOT NULL AND step_tokens.tokens > 0
),
centred AS (
    SELECT *, median(gpu_dur) OVER same AS median_ns, COUNT(*) OVER same AS steps
    FROM sized
    WINDOW same AS (
        PARTITION BY
            rank, phase, in_graph, in_full_graph, context_requests, generation_requests, tokens, rows_run, logit_rows
    )
),
typical AS (
    SELECT *
    FROM centred
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY
            rank, phase, in_graph, in_full_graph, context_requests, generation_requests, tokens, rows_run, logit_rows
        ORDER BY ABS(gpu_dur - median_ns), step_id
    ) * 2 <= steps + 1
)
SELECT
    ROW_NUMBER() OVER (ORDER BY rank, MIN(step_id)) - 1 AS class_id,
    rank, phase, in_graph, in_full_graph, context_requests, generation_requests,
    context_requests + generation_requests AS batch,
    tokens,
    rows_run AS executed_tokens,
    logit_rows,
    CASE WHEN COUNT(*) = COUNT(context_pairs) THEN AVG(context_pairs) END AS context_pairs,
    CASE WHEN COUNT(*) = COUNT(generation_pairs) THEN AVG(generation_pairs) END AS generation_pairs,
    CASE
        WHEN COUNT(*) = COUNT(context_kv_tokens + generation_kv_tokens)
            THEN AVG(context_kv_tokens + generation_kv_tokens)
    END AS kv_tokens,
    ANY_VALUE(steps) AS steps,
    ANY_VALUE(steps) * 4 >= MAX(ANY_VALUE(steps)) OVER (PARTITION BY rank, phase, in_graph) AS is_frequent,
    LIST(step_id ORDER BY step_id) AS step_ids,
    AVG(gpu_dur) AS gpu_ns
FROM typical
GROUP BY rank, phase, in_graph, in_full_graph, context_requests, generation_requests, tokens, rows_run, logit_rows
ORDER BY class_id
