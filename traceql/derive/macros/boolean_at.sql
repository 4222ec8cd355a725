-- Boolean at a path in a JSON document; NULL if it is missing or no boolean.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO boolean_at(document, path) AS
    CASE WHEN json_type(document, path) = 'BOOLEAN' THEN CAST(document ->> path AS BOOLEAN) END
