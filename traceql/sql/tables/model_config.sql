-- At most one row: the configuration of the model, if it was given or is in run.json.
-- @kind   source
-- @scope  rank
-- @column model_type   VARCHAR    model_type in config.json.
-- @column layers       BIGINT     num_hidden_layers in config.json.
-- @column hidden_size  BIGINT     hidden_size in config.json: the number of elements in one token's activations; NULL if it is missing.
-- @column families     VARCHAR[]  Layer families of this model_type (layer_kind.family).
-- @column path         VARCHAR    File that it was read from.
-- @column document     JSON       The configuration, as in the file.
CREATE TABLE IF NOT EXISTS model_config (
    model_type VARCHAR,
    layers BIGINT,
    hidden_size BIGINT,
    families VARCHAR[],
    path VARCHAR,
    document JSON
)
