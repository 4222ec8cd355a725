-- One row per communication kernel whose operation the trace describes.
--
-- PyTorch's and Ascend's profilers describe it in the arguments of the kernel, NCCL in those of an
-- NVTX range around its launch call.
-- @kind   scratch
-- @scope  rank
-- @needs  device_communication, event_communication, range_communication
-- @column kernel_id     BIGINT   Kernel (classified_kernel.id).
-- @column operation     VARCHAR  Name of the operation, in lower case.
-- @column group_name    VARCHAR  Name of the process group.
-- @column group_ranks   VARCHAR  Ranks of the process group, as a JSON list; the profiler shortens long lists.
-- @column group_size    BIGINT   Number of ranks in the process group.
-- @column in_elements   BIGINT   Number of elements in the input buffer of this rank.
-- @column out_elements  BIGINT   Number of elements in the output buffer of this rank.
-- @column element_type  VARCHAR  Type of the elements, in lower case.
-- @column source        BIGINT   Rank that sends, if the operation is point-to-point.
-- @column destination   BIGINT   Rank that receives, if the operation is point-to-point.
-- @column sequence      BIGINT   Number of the operation in its process group.
FROM event_communication
UNION ALL BY NAME
FROM range_communication
UNION ALL BY NAME
FROM device_communication
