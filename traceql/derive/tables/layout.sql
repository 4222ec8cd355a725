-- One row per rank: its place in each kind of parallelism.
-- @scope  run
-- @needs  rank_place
-- @column rank     BIGINT   Rank.
-- @column tp_rank  BIGINT   Tensor-parallel rank; NULL where the kind of parallelism is not known.
-- @column pp_rank  BIGINT   Pipeline stage; NULL where it is not known.
-- @column dp_rank  BIGINT   Data-parallel replica; NULL where the kind of parallelism is not known.
-- @column tp_size  BIGINT   Tensor-parallel ranks, loaded or not; NULL as tp_rank.
-- @column pp_size  BIGINT   Pipeline stages; NULL as pp_rank.
-- @column dp_size  BIGINT   Data-parallel replicas; NULL as dp_rank.
-- @column source   VARCHAR  run.json, file names, descriptions of process groups, process groups of distributedInfo, pattern of operations, or ranks of the run; and whether the kind of parallelism is unknown.
SELECT
    rank,
    CASE shared WHEN 'tensors' THEN tp WHEN 'work' THEN 0 END AS tp_rank,
    CASE WHEN stages_known THEN pp END AS pp_rank,
    CASE shared WHEN 'tensors' THEN dp WHEN 'work' THEN dp * tp_size + tp END AS dp_rank,
    CASE shared WHEN 'tensors' THEN tp_size WHEN 'work' THEN 1 END AS tp_size,
    CASE WHEN stages_known THEN pp_size END AS pp_size,
    CASE shared WHEN 'tensors' THEN dp_size WHEN 'work' THEN dp_size * tp_size END AS dp_size,
    source
FROM rank_place
ORDER BY rank
