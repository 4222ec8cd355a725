-- Sizes of step to predict, each with the recorded class that it is predicted from: case -1, which is the asked one, and recorded ones, to see how well that works; for query whatif.
-- @kind   table macro
-- @scope  run
CREATE OR REPLACE MACRO predicted_case(classes, bases, recording, asked_context, asked_phase, asked_graph) AS TABLE
WITH class AS (
    FROM query_table(classes)
),
based AS (
    FROM query_table(bases)
),
recorded AS (
    FROM query_table(recording)
),
-- Recorded classes like the base, each with the nearest other one, from which it is predicted in turn.
checked AS MATERIALIZED (
    SELECT class.*, other.class_id AS base_id
    FROM (
        SELECT class.*
        FROM class
        INNER JOIN based ON class.in_full_graph = based.in_full_graph AND class.in_graph = based.in_graph
        WHERE class.is_of_phase
        ORDER BY class.steps DESC, class.class_id
        LIMIT 32
    ) AS class
    INNER JOIN class AS other
        ON other.is_of_phase
        AND class.class_id <> other.class_id
        AND class.in_full_graph = other.in_full_graph
        AND class.in_graph = other.in_graph
    WHERE class.batch > 0 AND other.batch > 0
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY class.class_id
        ORDER BY NOT other.is_frequent, ABS(ln(other.batch / class.batch)), other.steps DESC, other.class_id
    ) = 1
)
SELECT
    -1 AS case_id,
    NULL AS own_class_id,
    based.class_id AS base_id,
    based.asked_batch = based.batch AS is_of_same_batch,
    recorded.asked_tp AS tp,
    recorded.is_elsewhere AS is_asked,
    COALESCE(asked_graph = 'on', based.in_graph) AS in_graph,
    CASE
        WHEN based.asked_batch = based.batch AND (asked_phase <> 'prefill' OR asked_context IS NULL)
            THEN based.executed_tokens
        WHEN asked_phase = 'prefill' AND asked_context IS NOT NULL THEN based.asked_batch * asked_context
        ELSE based.asked_batch * based.tokens / based.batch
    END::DOUBLE AS executed_tokens,
    (based.asked_batch * based.logit_rows / based.batch)::DOUBLE AS logit_rows,
    CASE
        WHEN asked_phase = 'decode' THEN 0.0
        WHEN asked_phase = 'prefill' AND asked_context IS NOT NULL
            THEN based.asked_batch * asked_context * (asked_context + 1) / 2
        ELSE based.asked_batch * based.context_pairs / based.batch
    END AS context_pairs,
    CASE
        WHEN asked_phase = 'prefill' THEN 0.0
        WHEN asked_phase = 'decode' AND asked_context IS NOT NULL
            THEN based.asked_batch * asked_context * based.tokens / based.batch
        ELSE based.asked_batch * based.generation_pairs / based.batch
    END AS generation_pairs,
    CASE
        -- Divided and multiplied, it would not always be the recorded number to the last digit.
        WHEN based.asked_batch = based.batch AND asked_context IS NULL THEN based.kv_tokens
        ELSE based.asked_batch * COALESCE(asked_context, based.kv_tokens / based.batch)
    END AS kv_tokens
FROM based
CROSS JOIN recorded
UNION ALL
SELECT
    checked.class_id,
    checked.class_id,
    checked.base_id,
    FALSE,
    recorded.tp_size,
    FALSE,
    checked.in_graph,
    checked.executed_tokens,
    checked.logit_rows,
    checked.context_pairs,
    checked.generation_pairs,
    checked.kv_tokens
FROM checked
CROSS JOIN recorded
