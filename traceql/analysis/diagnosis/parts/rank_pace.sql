-- One row per rank: how much longer than on the other ranks its kernels take, by the medians of equal kernels.
--
-- Attention and experts are left out: how long they take depends on requests and tokens, which differ between replicas.
-- @kind   scratch
-- @scope  run
-- @needs  engine_step, kernel_use
-- @column rank       BIGINT  Rank.
-- @column ranks      BIGINT  Ranks that were compared.
-- @column pace       DOUBLE  Median durations relative to the mean of the other ranks, weighted by time; 1 is equal. NULL with one rank.
-- @column slower_share DOUBLE Share of the compared time that is in kernels whose median is more than 3% above the others.
-- @column kinds      BIGINT  Kinds of kernels that were compared.
-- @column tokens     DOUBLE  Mean tokens of a step; NULL if unknown.
WITH own AS (
    SELECT
        rank, kernels * median_ns AS ns, median_ns,
        (SUM(median_ns) OVER of_kind - median_ns) / NULLIF(COUNT(*) OVER of_kind - 1, 0) AS other_ns
    FROM kernel_use
    WHERE
        category IN ('gemm', 'norm', 'elementwise', 'activation', 'rope', 'kv_cache')
        AND role IS NOT NULL AND kernels >= 10 AND median_ns > 0
    WINDOW of_kind AS (PARTITION BY phase, name, role, grid)
),
batch AS (
    SELECT rank, AVG(tokens) AS tokens FROM engine_step WHERE NOT is_edge GROUP BY rank
)
SELECT
    own.rank,
    COUNT(*) OVER () AS ranks,
    SUM(own.ns ORDER BY own.ns) FILTER (own.other_ns IS NOT NULL)
    / NULLIF(SUM(own.ns * own.other_ns / own.median_ns ORDER BY own.ns, own.other_ns), 0) AS pace,
    SUM(own.ns ORDER BY own.ns) FILTER (own.median_ns > 1.03 * own.other_ns)
    / NULLIF(SUM(own.ns ORDER BY own.ns) FILTER (own.other_ns IS NOT NULL), 0) AS slower_share,
    COUNT(own.other_ns) AS kinds,
    ANY_VALUE(batch.tokens) AS tokens
FROM own
LEFT JOIN batch ON own.rank = batch.rank
GROUP BY own.rank
