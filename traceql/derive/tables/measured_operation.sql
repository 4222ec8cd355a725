-- One row per GPU name, operation, size and number of ranks of the run: how long it takes by the measured ceilings.
--
-- It is empty without them (traceql experiment peaks), and for operations that were not measured among
-- as many ranks. Between measured sizes and beyond them, durations follow transfer_curve.
-- @scope  run
-- @needs  collective, trace, transfer_curve
-- @column device_name  VARCHAR  Name of the GPUs.
-- @column op           VARCHAR  Operation (collective.op).
-- @column ranks        BIGINT   Ranks that take part (collective.group_size).
-- @column bytes        BIGINT   Size of the whole buffer (collective.bytes).
-- @column ns           DOUBLE   Duration on an otherwise idle machine, of the fastest way that was measured, ns.
WITH asked AS (
    SELECT
        *,
        CASE WHEN op IN ('send', 'recv') THEN 'peer_copy' ELSE op END AS measured_op,
        CASE WHEN op IN ('send', 'recv') THEN 2 ELSE ranks END AS measured_ranks
    FROM (
        SELECT DISTINCT trace.device_name, collective.op, collective.group_size AS ranks, collective.bytes
        FROM collective
        INNER JOIN trace USING (rank)
        WHERE collective.bytes > 0
    )
)
SELECT
    asked.device_name,
    asked.op,
    asked.ranks,
    asked.bytes,
    curve.ns + curve.ns_per_byte * (asked.bytes - curve.from_bytes) AS ns
FROM asked
INNER JOIN transfer_curve AS curve
    ON asked.device_name = curve.device_name
    AND asked.measured_op = curve.op
    AND asked.measured_ranks = curve.ranks
    AND asked.bytes >= curve.from_bytes
    AND (asked.bytes < curve.to_bytes OR curve.to_bytes IS NULL)
WHERE curve.source = 'measured'
