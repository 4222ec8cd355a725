-- At most one row: the model's configuration, where it was given.
-- @kind   source
-- @scope  rank
-- @column model_type   VARCHAR    model_type of config.json.
-- @column layers       BIGINT     num_hidden_layers of config.json.
-- @column hidden_size  BIGINT     hidden_size of config.json: elements of one token's activations.
-- @column families     VARCHAR[]  Layer grammars for this model_type.
-- @column path         VARCHAR    Where it was read.
CREATE TABLE IF NOT EXISTS model_config (
    model_type VARCHAR,
    layers BIGINT,
    hidden_size BIGINT,
    families VARCHAR[],
    path VARCHAR
)
