-- A text of traceql as it is said of the devices of the run; if these are of several dialects, the text itself.
-- @kind   macro
-- @scope  run
-- @needs  in_words_of
CREATE OR REPLACE MACRO in_words_of_run(text) AS
    in_words_of((SELECT CASE WHEN MIN(dialect) = MAX(dialect) THEN MIN(dialect) END FROM trace), text)
