-- One row per engine iteration of one rank: when it begins, by the best evidence in the trace.
--
-- The best evidence is an execute_... annotation of vLLM, then ProfilerStep#N; without either, the
-- whole trace is one iteration.
-- @kind   scratch
-- @scope  rank
-- @needs  event_kind, slice
-- @column step_id     BIGINT                                   Number across all ranks, from 0.
-- @column number      BIGINT                                   Position among the iterations of its rank, from 0.
-- @column rank        BIGINT                                   Rank that ran it.
-- @column name        VARCHAR                                  The annotation; NULL if the whole trace is one iteration.
-- @column ts          BIGINT                                   Start on the host, ns since the run's first event.
-- @column dur         BIGINT                                   Duration on the host, ns.
-- @column source      VARCHAR                                  execute_context, ProfilerStep or trace; as in step.
-- @column context     STRUCT(requests VARCHAR, tokens VARCHAR, kv_tokens VARCHAR, squares VARCHAR, products VARCHAR)  The numbers in the annotation's context part (prompts), as text: requests, and the sums over them of sq (tokens), sk (KV length, with these tokens), sq * sq and sq * sk; the last three are empty unless the annotation is a detailed one.
-- @column generation  STRUCT(requests VARCHAR, tokens VARCHAR, kv_tokens VARCHAR, squares VARCHAR, products VARCHAR)  The same of its generation part.
WITH annotation AS (
    SELECT
        rank, id, name, ts, dur,
        CASE
            WHEN regexp_matches(name, '^execute_(\d+_)?context_\d+\(.*\)_generation_\d+\(') THEN 1
            WHEN regexp_matches(name, '^ProfilerStep#\d+$') THEN 2
        END AS evidence
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE event_kind.kind = 'annotation'
),
whole_trace AS (
    SELECT
        rank,
        MIN(id) AS id,
        NULL AS name,
        MIN(ts) AS ts,
        MAX(ts + dur) - MIN(ts) AS dur,
        3 AS evidence
    FROM slice
    WHERE rank IS NOT NULL
    GROUP BY rank
),
candidate AS (
    SELECT * FROM annotation WHERE evidence IS NOT NULL
    UNION ALL
    SELECT * FROM whole_trace
),
chosen AS (
    SELECT *
    FROM candidate
    QUALIFY evidence = MIN(evidence) OVER (PARTITION BY rank)
)
SELECT
    ROW_NUMBER() OVER (ORDER BY rank, ts, id) - 1 AS step_id,
    ROW_NUMBER() OVER (PARTITION BY rank ORDER BY ts, id) - 1 AS number,
    rank, name, ts, dur,
    CASE evidence WHEN 1 THEN 'execute_context' WHEN 2 THEN 'ProfilerStep' ELSE 'trace' END AS source,
    regexp_extract(
        name, 'context_(\d+)\((?:sq)?(\d+)(?:sk(\d+)sqsq(\d+)sqsk(\d+)\))?',
        ['requests', 'tokens', 'kv_tokens', 'squares', 'products']
    ) AS context,
    regexp_extract(
        name, 'generation_(\d+)\((?:sq)?(\d+)(?:sk(\d+)sqsq(\d+)sqsk(\d+)\))?',
        ['requests', 'tokens', 'kv_tokens', 'squares', 'products']
    ) AS generation
FROM chosen
