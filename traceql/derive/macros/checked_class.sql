-- Recorded classes of steps that are like the base of a prediction, each with the nearest other one, from which it is predicted in turn; for query whatif.
-- @kind   table macro
-- @scope  run
CREATE OR REPLACE MACRO checked_class(classes, bases) AS TABLE
WITH class AS (
    FROM query_table(classes)
),
based AS (
    FROM query_table(bases)
)
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
