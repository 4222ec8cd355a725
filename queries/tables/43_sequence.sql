-- What kernels are by their order alone (traceql/layers/attribution.py): kernel_layer, model_stream and
-- module_role, of which 45_layer makes layers and roles, and which model each rank runs.

COMMENT ON TABLE rank_model IS 'One row per rank that runs a model whose layers were recognised.';
COMMENT ON COLUMN rank_model.rank IS 'Rank.';
COMMENT ON COLUMN rank_model.family IS 'Layer grammar that its kernels match (queries/layers).';
COMMENT ON COLUMN rank_model.layers IS 'Layers that it runs in a forward pass.';
COMMENT ON COLUMN rank_model.first_layer IS
    'Number of the first of them in the whole model; NULL where the pipeline split is not known: layers then count from 0 on each rank.';
COMMENT ON COLUMN rank_model.stage IS 'Pipeline stage, from 0; NULL where the split is not known.';
COMMENT ON COLUMN rank_model.stages IS 'Pipeline stages of the run; NULL where that is not known.';
COMMENT ON COLUMN rank_model.source IS 'What the stage was read from.';
