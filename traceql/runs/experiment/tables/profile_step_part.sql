-- One row per profiled point, grain, stratum, part, role and cause: what one rank spends a step of the stratum on.
--
-- It is the mean of the typical steps, and of the ranks that were recorded. The rows of a stratum add
-- up to the time from a step's first kernel to its last one.
-- @column point_id  BIGINT   Point.
-- @column grain     VARCHAR  kv or rows, as in profile_stratum.
-- @column stratum   VARCHAR  Name of the stratum: phase and size of the step, in grain kv also lengths in the KV cache.
-- @column phase     VARCHAR  Phase of its steps.
-- @column steps     BIGINT   Recorded steps of the stratum, those of all ranks as one.
-- @column part      VARCHAR  computing, exposed_transfer, exposed_wait, exposed_unmatched, exposed_copy, idle or other_step.
-- @column role      VARCHAR  Role; other if unknown, NULL in the parts idle and other_step.
-- @column cause     VARCHAR  Why the device is idle; NULL in all other parts.
-- @column ns        DOUBLE   Time in a step of a rank, ns.
SELECT
    profile_stratum.point_id, profile_stratum.grain, profile_stratum.stratum, profile_stratum.phase,
    profile_stratum.units AS steps,
    profile_typical_part.part, profile_typical_part.role, profile_typical_part.cause,
    profile_typical_part.ns / (profile_stratum.typical * profile_stratum.lanes) AS ns
FROM profile_stratum
INNER JOIN profile_typical_part USING (point_id, grain, stratum)
ORDER BY ALL
