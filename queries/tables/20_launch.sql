-- Runtime and driver calls, each in the iteration that was the latest to begin before it: what
-- follows an annotation (sampling, sends) belongs to its iteration until the next one begins.

CREATE OR REPLACE TABLE launch AS
WITH call AS (
    SELECT id, rank, ts, dur, name, tid, correlation
    FROM slice
    WHERE lower(cat) IN
        ('cuda_runtime', 'cuda_driver', 'hip_runtime', 'hip_driver', 'xpu_runtime', 'runtime')
)
SELECT call.*, iteration.step_id
FROM call
ASOF LEFT JOIN iteration ON call.rank = iteration.rank AND call.ts >= iteration.ts
ORDER BY call.id;

COMMENT ON TABLE launch IS 'One row per CUDA or HIP runtime or driver call.';
COMMENT ON COLUMN launch.id IS 'Row of slice.';
COMMENT ON COLUMN launch.rank IS 'Rank that made the call.';
COMMENT ON COLUMN launch.ts IS 'Start of the call, ns since trace.base_time_ns.';
COMMENT ON COLUMN launch.dur IS 'Duration of the call on the host, ns.';
COMMENT ON COLUMN launch.name IS 'Name of the call.';
COMMENT ON COLUMN launch.tid IS 'Thread that made it.';
COMMENT ON COLUMN launch.correlation IS 'Number that the call shares with what it launched.';
COMMENT ON COLUMN launch.step_id IS 'Step in which it was made; NULL before the first.';
