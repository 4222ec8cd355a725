-- Whether a kernel of this name runs one block per token of its batch, padding included: the KV-cache writes of vLLM do.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO has_block_per_token(name) AS
    name LIKE '%reshape_and_cache%' OR name LIKE '%concat_and_cache_mla%'
