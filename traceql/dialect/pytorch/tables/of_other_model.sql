-- Whether a module belongs to an encoder or to a model that drafts tokens, and not to the decoder.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO of_other_model(path) AS regexp_matches(
    path, '(?i)vis(ion|ual)|vae|unet|audio|encoder(layer|model)?([./_]|$)|(^|[./])(text_\d+|image\w*|draft\w*|eagle\w*|mtp)([./]|$)'
)
