-- One row per rank: its position in tensor, pipeline and data parallelism.
-- @scope  run
-- @needs  rank_position
-- @column rank     BIGINT   Rank.
-- @column tp_rank  BIGINT   Tensor-parallel rank, from 0; NULL if the kind of parallelism is unknown.
-- @column pp_rank  BIGINT   Pipeline stage, from 0; NULL if unknown.
-- @column dp_rank  BIGINT   Data-parallel replica, from 0; NULL if the kind of parallelism is unknown.
-- @column tp_size  BIGINT   Number of tensor-parallel ranks, loaded or not; NULL if tp_rank is NULL, or if several sizes fit the evidence.
-- @column pp_size  BIGINT   Number of pipeline stages; NULL if pp_rank is NULL, or if several sizes fit the evidence.
-- @column dp_size  BIGINT   Number of data-parallel replicas; NULL if dp_rank is NULL, or if several sizes fit the evidence.
-- @column source   VARCHAR  Where the positions come from: run.json, file names, descriptions of process groups, process groups of distributedInfo, pattern of operations, or ranks of the run; and whether the kind of parallelism is unknown.
SELECT
    rank,
    CASE shared WHEN 'tensors' THEN tp WHEN 'work' THEN 0 END AS tp_rank,
    CASE WHEN stages_known THEN pp END AS pp_rank,
    CASE shared WHEN 'tensors' THEN dp WHEN 'work' THEN dp * tp_size + tp END AS dp_rank,
    CASE shared WHEN 'tensors' THEN tp_size WHEN 'work' THEN 1 END AS tp_size,
    CASE WHEN stages_known THEN pp_size END AS pp_size,
    CASE shared WHEN 'tensors' THEN dp_size WHEN 'work' THEN dp_size * tp_size END AS dp_size,
    source
FROM rank_position
ORDER BY rank
