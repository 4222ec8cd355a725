-- Number at a path in a JSON document; NULL if it is missing, no number or not finite.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO number_at(document, path) AS CASE
    WHEN
        json_type(document, path) IN ('BIGINT', 'UBIGINT', 'DOUBLE')
        AND isfinite(TRY_CAST(document ->> path AS DOUBLE))
        THEN TRY_CAST(document ->> path AS DOUBLE)
END
