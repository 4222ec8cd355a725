-- One row per stream on which forward passes were found.
-- @kind   scratch
-- @scope  rank
-- @needs  kernel_layer
-- @column rank    BIGINT  Rank.
-- @column device  BIGINT  Device number on its host.
-- @column stream  BIGINT  Stream number.
SELECT DISTINCT rank, device, stream FROM kernel_layer
