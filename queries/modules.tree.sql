-- One row per module path: GPU time launched by the module, with and without inner modules.
--
-- Use it to read GPU time along the structure of the model's code. It needs a trace with Python
-- stacks or annotated layers. Kernels of graph replays belong to no module. Modules of one class at one
-- place are one row, also those of all layers; --layer shows one of them.
-- @param  rank         BIGINT = NULL  Only this rank; all ranks by default.
-- @param  layer        BIGINT = NULL  Only modules in this layer; all by default.
-- @column path         VARCHAR  Class names from the outermost module inwards, separated by slashes.
-- @column calls        BIGINT   Number of calls.
-- @column self_ns      BIGINT   Self time: GPU time launched by the module itself and not by an inner module, ns.
-- @column inclusive_ns BIGINT   GPU time launched by the module and its inner modules, ns.
-- @column share_pct    DOUBLE   inclusive_ns in percent of all GPU time launched by modules.
-- @column kernels      BIGINT   Number of kernels in inclusive_ns.
-- @key    path inclusive_ns share_pct self_ns kernels calls
-- @empty  the trace has neither Python stacks nor annotated layers; record it with traceql capture run --stacks, or --annotate layers --eager
-- @chart  bar x=inclusive_ns y=path
-- @title  GPU time by module
WITH RECURSIVE own AS (
    SELECT kernel_module.module_id AS id, SUM(kernel.dur) AS dur, COUNT(*) AS kernels
    FROM kernel_module
    INNER JOIN kernel USING (id)
    WHERE $rank::BIGINT IS NULL OR kernel.rank = $rank::BIGINT
    GROUP BY kernel_module.module_id
),
risen AS (
    SELECT id, id AS outer_id, dur, kernels FROM own
    UNION ALL
    SELECT risen.id, module.parent_id, risen.dur, risen.kernels
    FROM risen
    INNER JOIN module ON risen.outer_id = module.id
    WHERE module.parent_id IS NOT NULL
),
inclusive AS (
    SELECT outer_id AS id, SUM(dur) AS dur, SUM(kernels) AS kernels FROM risen GROUP BY outer_id
)
SELECT
    module.path,
    COUNT(*) AS calls,
    CAST(COALESCE(SUM(own.dur), 0) AS BIGINT) AS self_ns,
    CAST(COALESCE(SUM(inclusive.dur), 0) AS BIGINT) AS inclusive_ns,
    100.0 * COALESCE(SUM(inclusive.dur), 0) / (SELECT SUM(dur) FROM own) AS share_pct,
    CAST(COALESCE(SUM(inclusive.kernels), 0) AS BIGINT) AS kernels
FROM module
LEFT JOIN own USING (id)
LEFT JOIN inclusive ON module.id = inclusive.id
WHERE
    ($rank::BIGINT IS NULL OR module.rank = $rank::BIGINT)
    AND ($layer::BIGINT IS NULL OR module.layer = $layer::BIGINT)
GROUP BY module.path
ORDER BY module.path
