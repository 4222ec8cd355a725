-- Whether a module belongs to another model than the decoder: one that encodes, or that drafts tokens.
-- @kind   scratch macro
-- @scope  rank
CREATE OR REPLACE MACRO of_other_model(path) AS regexp_matches(
    path, '(?i)vis(ion|ual)|vae|unet|audio|encoder(layer|model)?([./_]|$)|(^|[./])(text_\d+|image\w*|draft\w*|eagle\w*|mtp)([./]|$)'
)
