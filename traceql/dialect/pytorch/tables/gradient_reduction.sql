-- One row per rank whose trace shows DistributedDataParallel, which averages gradients across replicas.
-- @kind   scratch
-- @scope  rank
-- @needs  slice
-- @column rank  BIGINT  Rank.
SELECT DISTINCT rank
FROM slice
WHERE name IN ('torch.distributed.ddp.reducer::copy_bucket_to_grad', 'DistributedDataParallel.forward')
