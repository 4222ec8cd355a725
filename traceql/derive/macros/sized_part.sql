-- Parts of the model with their numbers of rows, for each case and for each recorded class of steps, by the same formulas; for query whatif.
-- @kind   table macro
-- @scope  run
CREATE OR REPLACE MACRO sized_part(cases, classes, recording, models) AS TABLE
WITH case_size AS (
    FROM query_table(cases)
),
class AS (
    FROM query_table(classes)
),
recorded AS (
    FROM query_table(recording)
),
model AS (
    FROM query_table(models)
),
situation AS (
    SELECT
        TRUE AS is_case, case_id AS id, tp, is_asked, executed_tokens, logit_rows, context_pairs, generation_pairs, kv_tokens
    FROM case_size
    UNION ALL
    SELECT
        FALSE, class.class_id, recorded.tp_size, FALSE, class.executed_tokens, class.logit_rows, class.context_pairs,
        class.generation_pairs, class.kv_tokens
    FROM class
    CROSS JOIN recorded
)
SELECT
    situation.*,
    model.* EXCLUDE (tp),
    CASE model.rows_of WHEN 'logit_rows' THEN situation.logit_rows ELSE situation.executed_tokens END AS row_count,
    model.context_pair_flops + model.generation_pair_flops > 0 AS attends
FROM situation
INNER JOIN model USING (tp)
