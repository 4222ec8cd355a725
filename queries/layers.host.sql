-- One row per rank and model layer: how long its calls took on the host.
--
-- Use it to compare layers by host time. With a GPU, this is the time that the host took to issue
-- the layer's kernels. On a machine without a GPU, it is the time of the layer itself. It needs a
-- trace with annotated layers or Python stacks.
-- @param  rank      BIGINT = NULL  Only this rank; all ranks by default.
-- @column rank      BIGINT  Rank.
-- @column layer     BIGINT  Model layer, from 0.
-- @column calls     BIGINT  Number of calls: one per forward pass.
-- @column host_ns   BIGINT  Total duration of the layer's calls on the host, ns.
-- @column median_ns DOUBLE  Median duration of a call, ns.
-- @column share_pct DOUBLE  host_ns in percent of that of all layers of the rank.
-- @key    rank layer host_ns median_ns share_pct calls
-- @empty  the trace has neither annotated layers nor Python stacks; record it with traceql capture run --stacks, or --annotate layers --eager
-- @chart  bar x=host_ns y=layer color=rank
-- @title  Host time of each layer
WITH outermost AS (
    SELECT module.rank, module.layer, GREATEST(slice.dur, 0) AS dur
    FROM module
    INNER JOIN slice USING (id)
    LEFT JOIN module AS caller ON module.parent_id = caller.id
    WHERE module.layer IS NOT NULL
        AND caller.layer IS DISTINCT FROM module.layer
        AND ($rank::BIGINT IS NULL OR module.rank = $rank::BIGINT)
)
SELECT
    rank, layer,
    COUNT(*) AS calls,
    CAST(SUM(dur) AS BIGINT) AS host_ns,
    median(dur) AS median_ns,
    100.0 * SUM(dur) / SUM(SUM(dur)) OVER (PARTITION BY rank) AS share_pct
FROM outermost
GROUP BY rank, layer
ORDER BY rank, layer
