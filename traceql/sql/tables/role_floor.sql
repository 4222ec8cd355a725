-- One row per row of cost and kind of ceiling: the least time that its work could take.
--
-- Kernels run one after the other, so that each role takes at least the longer of two times: that
-- of its FLOPs, and that of its compulsory bytes. Links count for communication.
-- @scope  run
-- @needs  collective, communicator_link, cost, kernel, peak, rank_peak, trace, transfer_curve
-- @column rank         BIGINT   Rank.
-- @column step_id      BIGINT   Step (step.step_id).
-- @column layer        BIGINT   Model layer; NULL outside layers.
-- @column role         VARCHAR  Part of the model.
-- @column kind         VARCHAR  data sheet or measured: whose ceilings (rank_peak.kind).
-- @column compute_ns   DOUBLE   Useful FLOPs / peak of their type of numbers, ns; NULL if either is unknown.
-- @column memory_ns    DOUBLE   Compulsory bytes / peak of the memory, ns; NULL if either is unknown.
-- @column floor_ns     DOUBLE   The longer of the two, ns; NULL unless both are known.
-- @column bound        VARCHAR  Which of the two it is: compute or memory; NULL if floor_ns is NULL or 0.
-- @column executed_ns  DOUBLE   The same for what the kernels execute, padding included, ns; NULL if floor_ns is NULL. Not less than floor_ns.
-- @column small_ns     BIGINT   Number of its kernels x the duration of a kernel that has nothing to do, ns; NULL if that is unknown.
-- @column link_ns      DOUBLE   Bytes that the rank must send / peak of the link; or as long as operations of that size take, if they were measured (transfer_curve). NULL without communication, or if neither is known; ns.
-- @column dur_ns       BIGINT   Sum of the durations of its kernels, ns (cost.dur_ns).
-- @column flops        BIGINT   Useful FLOPs (cost.flops).
-- @column hbm_bytes    BIGINT   Compulsory bytes (cost.hbm_bytes).
-- @column wire_bytes   BIGINT   Bytes that the rank must send (cost.wire_bytes).
-- @column missing      VARCHAR  What is missing for floor_ns, or for link_ns of communication; NULL if nothing is.
WITH communication AS (
    SELECT
        kernel.rank, kernel.step_id, kernel.layer, kernel.role, trace.device_name,
        collective.communicator_id, collective.bytes,
        CASE WHEN collective.op IN ('send', 'recv') THEN 'peer_copy' ELSE collective.op END AS measured_op,
        CASE WHEN collective.op IN ('send', 'recv') THEN 2 ELSE collective.group_size END AS measured_ranks
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    INNER JOIN trace ON collective.rank = trace.rank
),
-- The slowest link of the communicators that a role uses.
role_link AS (
    SELECT communication.rank, communication.role, MIN(communicator_link.peak_gbps) AS peak_gbps
    FROM communication
    INNER JOIN communicator_link USING (communicator_id)
    GROUP BY communication.rank, communication.role
),
measured_curve AS (SELECT * FROM transfer_curve WHERE source = 'measured'),
-- Roles all of whose operations were measured at their size, on an otherwise idle machine: small
-- operations take longer than their bytes do at the peak of the link.
measured_transfer AS (
    SELECT step_id, layer, role, CAST(SUM(ns ORDER BY ns) AS DOUBLE) AS ns
    FROM (
        SELECT
            communication.*,
            curve.ns + curve.ns_per_byte * (communication.bytes - curve.from_bytes) AS ns
        FROM communication
        LEFT JOIN measured_curve AS curve
            ON communication.device_name = curve.device_name
            AND communication.measured_op = curve.op
            AND communication.measured_ranks = curve.ranks
            AND communication.bytes > 0
            AND communication.bytes >= curve.from_bytes
            AND (communication.bytes < curve.to_bytes OR curve.to_bytes IS NULL)
        WHERE communication.device_name IN (SELECT device_name FROM measured_curve)
    )
    GROUP BY step_id, layer, role
    HAVING COUNT(ns) = COUNT(*)
),
rated AS (
    SELECT
        cost.*, trace.device_name, rank_peak.kind, rank_peak.kernel_ns,
        peak.tflops * 1000 AS flops_per_ns,
        rank_peak.hbm_gbps,
        CASE rank_peak.kind
            WHEN 'data sheet' THEN COALESCE(role_link.peak_gbps, rank_peak.link_gbps)
            ELSE rank_peak.link_gbps
        END AS link_gbps,
        CASE WHEN rank_peak.kind = 'measured' THEN measured_transfer.ns END AS measured_ns
    FROM cost
    INNER JOIN trace USING (rank)
    INNER JOIN rank_peak USING (rank)
    LEFT JOIN peak
        ON trace.device_name = peak.device_name
        AND rank_peak.kind = peak.kind
        AND cost.dtype = peak.dtype
    LEFT JOIN role_link ON cost.rank = role_link.rank AND cost.role = role_link.role
    LEFT JOIN measured_transfer
        ON cost.step_id = measured_transfer.step_id
        AND cost.role = measured_transfer.role
        AND cost.layer IS NOT DISTINCT FROM measured_transfer.layer
),
timed AS (
    SELECT
        *,
        CASE WHEN flops = 0 THEN 0 ELSE flops / flops_per_ns END AS compute_ns,
        CASE WHEN hbm_bytes = 0 THEN 0 ELSE hbm_bytes / hbm_gbps END AS memory_ns,
        COALESCE(measured_ns, wire_bytes / link_gbps) AS link_ns
    FROM rated
),
-- GREATEST ignores NULL.
bounded AS (
    SELECT
        *,
        CASE WHEN compute_ns + memory_ns IS NOT NULL THEN GREATEST(compute_ns, memory_ns) END AS floor_ns
    FROM timed
)
SELECT
    rank, step_id, layer, role, kind, compute_ns, memory_ns, floor_ns,
    CASE WHEN floor_ns > 0 AND compute_ns > memory_ns THEN 'compute' WHEN floor_ns > 0 THEN 'memory' END AS bound,
    CASE
        WHEN floor_ns IS NOT NULL
            THEN GREATEST(floor_ns, executed_flops / flops_per_ns, executed_hbm_bytes / hbm_gbps)
    END AS executed_ns,
    kernels * kernel_ns AS small_ns,
    link_ns, dur_ns, flops, hbm_bytes, wire_bytes,
    CASE
        WHEN missing IS NOT NULL THEN missing
        WHEN device_name IS NULL AND (floor_ns IS NULL OR (wire_bytes IS NOT NULL AND link_ns IS NULL))
            THEN 'name of the GPU in the trace'
        WHEN wire_bytes IS NOT NULL AND link_ns IS NULL THEN 'peak of the links'
        WHEN memory_ns IS NULL THEN 'peak of the memory'
        WHEN compute_ns IS NULL THEN format('peak for {}', COALESCE(dtype, 'its type of numbers'))
    END AS missing
FROM bounded
ORDER BY rank, step_id, layer, role, kind
