-- Whether the module with this path does not belong to the decoder, but to an encoder or to a model that drafts tokens.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO is_of_other_model(path) AS regexp_matches(
    path,
    '(?i)vis(ion|ual)|vae|unet|audio|encoder(layer|model)?([./_]|$)|(^|[./])(text_\d+|image\w*|draft\w*|eagle\w*|mtp)([./]|$)'
)
