-- Text at a path in a JSON document; NULL if it is missing or no text.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO text_at(document, path) AS
    CASE WHEN json_type(document, path) = 'VARCHAR' THEN document ->> path END
