-- Whether a module of this class, at this path, is a layer of the decoder.
-- @kind   macro
-- @scope  rank
-- @needs  of_other_model
CREATE OR REPLACE MACRO is_decoder_layer(class, path) AS
    regexp_matches(class, '(DecoderLayer|TransformerBlock|TransformerLayer)$') AND NOT of_other_model(path)
