-- Where the engine's iterations begin on each rank, from the best evidence that its trace has:
-- vLLM's execute_... annotations, else ProfilerStep#N, else the whole trace as one step.

CREATE OR REPLACE TEMP TABLE iteration AS
WITH annotation AS (
    SELECT
        rank,
        id,
        name,
        ts,
        dur,
        CASE
            WHEN regexp_matches(name, '^execute_(\d+_)?context_\d+\(.*\)_generation_\d+\(') THEN 1
            WHEN regexp_matches(name, '^ProfilerStep#\d+$') THEN 2
        END AS evidence
    FROM slice
    WHERE cat = 'user_annotation'
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
    rank,
    name,
    ts,
    dur,
    evidence,
    regexp_extract(name, 'context_(\d+)\((?:sq)?(\d+)', ['requests', 'tokens']) AS context,
    regexp_extract(name, 'generation_(\d+)\((?:sq)?(\d+)', ['requests', 'tokens']) AS generation
FROM chosen;
