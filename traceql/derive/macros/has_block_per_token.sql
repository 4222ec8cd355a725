-- Whether a kernel of this name runs one block per token of its batch, padding included: the KV-cache write does.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO has_block_per_token(name) AS name LIKE '%reshape_and_cache%'
