-- Integer at a path in a JSON document; NULL if it is missing, no integer or 2^62 and more, so that two of them can be added.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO integer_at(document, path) AS CASE
    WHEN
        json_type(document, path) IN ('BIGINT', 'UBIGINT')
        AND TRY_CAST(document ->> path AS BIGINT) BETWEEN 1 - (1::BIGINT << 62) AND (1::BIGINT << 62) - 1
        THEN TRY_CAST(document ->> path AS BIGINT)
END
