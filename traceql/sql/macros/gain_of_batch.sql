-- Gain in tokens per second, percent, if N times the requests run in a step.
--
-- A decode step reads all weights, however few tokens it has, so more tokens are free until computing takes
-- longer than reading: 256 tokens here (989 TFLOPS at 3.35 TB/s and 2 bytes per weight are 295). Beyond that
-- nothing is gained. Attention, share of the step, grows with the requests.
-- @kind   macro
-- @scope  rank
CREATE OR REPLACE MACRO gain_of_batch(times, tokens, share) AS
CASE WHEN times > 0 THEN 100.0 * (
    LEAST(times, GREATEST(1.0, 256.0 / tokens))
    / (1.0 + (LEAST(times, GREATEST(1.0, 256.0 / tokens)) - 1.0) * share)
    - 1.0
) END
