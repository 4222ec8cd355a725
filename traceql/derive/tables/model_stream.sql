-- One row per stream on which forward passes were found.
-- @kind   scratch
-- @scope  rank
-- @needs  kernel_layer
-- @column rank    BIGINT  Rank.
-- @column device  BIGINT  Number of the device on its machine.
-- @column stream  BIGINT  Number of the stream.
SELECT DISTINCT rank, device, stream FROM kernel_layer WHERE confirmed IS NOT NULL
