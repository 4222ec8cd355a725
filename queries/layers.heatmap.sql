-- One row per step and layer: how long the layer took in that step.
--
-- Use it to spot slow layers and slow steps. dur is from the start of the layer's first kernel to
-- the end of its last one, in the slowest forward pass of the step.
-- @param  rank    BIGINT  = 0     Rank.
-- @param  phase   VARCHAR = NULL  Only this phase; all by default.
-- @values phase   prefill decode mixed idle
-- @column step_id BIGINT   Step.
-- @column number  BIGINT   Position of the step in its rank, from 0.
-- @column phase   VARCHAR  Phase of the step: prefill, decode, mixed or idle.
-- @column layer   BIGINT   Model layer, from 0.
-- @column dur     BIGINT   Duration of the layer, ns.
-- @column busy_ns BIGINT   Part of dur in which a kernel of the layer ran, ns.
-- @key    step_id number phase layer dur busy_ns
-- @empty  no layers were recognized; traceql check says why
-- @chart  heatmap x=number y=layer color=dur
-- @title  Duration of each layer in each step
SELECT
    layer.step_id, step.number, step.phase, layer.layer,
    CAST(MAX(layer.dur) AS BIGINT) AS dur,
    CAST(arg_max(layer.busy_ns, layer.dur) AS BIGINT) AS busy_ns
FROM layer
INNER JOIN step USING (step_id)
WHERE layer.rank = $rank::BIGINT AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
GROUP BY layer.step_id, step.number, step.phase, layer.layer
ORDER BY layer.step_id, layer.layer
