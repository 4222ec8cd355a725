-- One row per step and layer: how long the layer took in that step.
--
-- dur is from the start of the layer's first kernel to the end of its last one, on the slowest pass
-- of the step.
-- @param  rank    BIGINT  = 0     Rank.
-- @param  phase   VARCHAR = NULL  This phase only; all where NULL.
-- @values phase   prefill decode mixed idle
-- @column step_id BIGINT   Step.
-- @column number  BIGINT   Its position in the rank, from 0.
-- @column phase   VARCHAR  Its phase.
-- @column layer   BIGINT   Model layer, from 0.
-- @column dur     BIGINT   Duration of the layer, ns.
-- @column busy_ns BIGINT   Of these, ns in which a kernel of the layer ran.
-- @empty  no layers were recognised: traceql check says why
-- @chart  heatmap x=number y=layer color=dur
-- @title  How long each layer took in each step
SELECT
    layer.step_id,
    step.number,
    step.phase,
    layer.layer,
    CAST(MAX(layer.dur) AS BIGINT) AS dur,
    CAST(arg_max(layer.busy_ns, layer.dur) AS BIGINT) AS busy_ns
FROM layer
INNER JOIN step USING (step_id)
WHERE layer.rank = $rank::BIGINT AND ($phase::VARCHAR IS NULL OR step.phase = $phase::VARCHAR)
GROUP BY layer.step_id, step.number, step.phase, layer.layer
ORDER BY layer.step_id, layer.layer
