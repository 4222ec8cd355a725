-- One row per model layer: how long its calls took on the host.
--
-- From annotated layers or traces with stacks; no rows without. On a machine without a GPU this is
-- what the layer cost; with one, it is how long the host took to issue its kernels.
-- @param  rank      BIGINT = NULL  This rank only; all where NULL.
-- @column rank      BIGINT  Rank.
-- @column layer     BIGINT  Model layer, from 0.
-- @column calls     BIGINT  Calls: one per forward pass.
-- @column host_ns   BIGINT  Summed duration of its calls on the host, ns.
-- @column median_ns DOUBLE  Median duration of a call, ns.
-- @column share_pct DOUBLE  host_ns in that of all layers of the rank, percent.
-- @chart  bar x=host_ns y=layer color=rank
-- @title  Time of each layer on the host
WITH outermost AS (
    SELECT module.rank, module.layer, slice.dur
    FROM module
    INNER JOIN slice USING (id)
    LEFT JOIN module AS caller ON module.parent_id = caller.id
    WHERE module.layer IS NOT NULL
        AND caller.layer IS DISTINCT FROM module.layer
        AND ($rank::BIGINT IS NULL OR module.rank = $rank::BIGINT)
)
SELECT
    rank,
    layer,
    COUNT(*) AS calls,
    CAST(SUM(dur) AS BIGINT) AS host_ns,
    median(dur) AS median_ns,
    100.0 * SUM(dur) / SUM(SUM(dur)) OVER (PARTITION BY rank) AS share_pct
FROM outermost
GROUP BY rank, layer
ORDER BY rank, layer
