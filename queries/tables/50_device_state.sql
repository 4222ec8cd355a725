-- The exact partition of each rank's GPU span by what its device was doing (traceql/device_states.py).

COMMENT ON TABLE device_state IS
    'One row per interval in which a device''s activity does not change; those of a device cover its rank''s GPU span without overlap.';
COMMENT ON COLUMN device_state.rank IS 'Rank.';
COMMENT ON COLUMN device_state.device IS 'Device number on its host.';
COMMENT ON COLUMN device_state.ts IS 'Start, ns since trace.base_time_ns.';
COMMENT ON COLUMN device_state.dur IS 'Duration, ns.';
COMMENT ON COLUMN device_state.compute IS 'A kernel runs that neither communicates nor copies.';
COMMENT ON COLUMN device_state.comm IS 'A kernel of category collective runs.';
COMMENT ON COLUMN device_state.copy IS 'A memory copy or memory set runs (category memcpy or memset).';
