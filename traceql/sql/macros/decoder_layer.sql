-- Number of the layer in the path of a module; NULL if it names no layer of the decoder.
-- @kind   macro
-- @scope  rank
-- @needs  is_of_other_model
CREATE OR REPLACE MACRO decoder_layer(path) AS CASE
    WHEN NOT is_of_other_model(path)
        THEN TRY_CAST(regexp_extract(path, '(?:^|[./])(?:layers?|h|blocks?)[./](\d+)(?:[./]|$)', 1) AS BIGINT)
END
