-- One row per collective operation on one rank that was matched on all its ranks: how long it took, and how long such operations take elsewhere.
--
-- What an operation takes elsewhere is known from recordings of the same GPUs (known_collective) and from the measured
-- ceilings of the run, of which the shorter counts. Between two sizes it is a straight line. From 64 MiB on, half of the
-- peak of the link is expected where nothing was measured: NVLink and Infinity Fabric gave 48% to 76% of theirs, PCIe 5 87%.
-- @kind   scratch
-- @scope  run
-- @needs  collective, collective_exposure, communicator, communicator_link, kernel, known_collective, measured_collective, step, trace
-- @empty_unless collective
-- @column kernel_id        BIGINT   Kernel of the operation (kernel.id).
-- @column rank             BIGINT   Rank.
-- @column step_id          BIGINT   Step (kernel.step_id).
-- @column number           BIGINT   Number of the step.
-- @column phase            VARCHAR  Its phase.
-- @column is_vllm          BOOLEAN  Whether vLLM ran the step.
-- @column role             VARCHAR  Role of the kernel.
-- @column scope            VARCHAR  As in communicator.
-- @column link             VARCHAR  As in communicator_link.
-- @column op               VARCHAR  Operation.
-- @column ranks            BIGINT   Ranks that take part.
-- @column algorithm        VARCHAR  nccl, custom (vLLM's all-reduce), symmetric memory, FlashInfer, quick reduce or other.
-- @column bytes            BIGINT   Size of the whole buffer; NULL if unknown.
-- @column ts               BIGINT   Start, ns since the run's first event.
-- @column transfer_ns      BIGINT   Duration without waiting, ns.
-- @column exposed_ns       BIGINT   Part of it that no compute kernel overlapped, ns.
-- @column busbw_gbps       DOUBLE   Bus bandwidth.
-- @column is_undisturbed   BOOLEAN  Whether no compute kernel ran beside it, and the clocks resolve it.
-- @column expected_ns      DOUBLE   What such an operation takes elsewhere with the same algorithm, ns; NULL if unknown.
-- @column custom_ns        DOUBLE   What it takes with vLLM's custom all-reduce; NULL if unknown.
-- @column halved_ns        DOUBLE   What it would take with half of the bytes between half of the ranks: 0 of two; NULL if unknown.
WITH operation AS (
    SELECT
        collective.kernel_id, collective.rank, kernel.step_id, step.number, step.phase,
        step.source = 'execute_context' AS is_vllm,
        kernel.role, communicator.scope, communicator_link.link, communicator_link.peak_gbps,
        trace.device_name, collective.op,
        collective.group_size AS ranks,
        CASE
            WHEN regexp_matches(kernel.name, 'cross_device_reduce') THEN 'custom'
            WHEN regexp_matches(kernel.name, 'multimem|symm_mem|one_shot|two_shot') THEN 'symmetric memory'
            WHEN regexp_matches(kernel.name, '(?i)allreduce_fusion|trtllm|moe_finalize') THEN 'FlashInfer'
            WHEN regexp_matches(kernel.name, '(?i)quick_?reduce|allreduce_prototype') THEN 'quick reduce'
            WHEN regexp_matches(kernel.name, '(?i)nccl|rccl') THEN 'nccl'
            ELSE 'other'
        END AS algorithm,
        collective.bytes, kernel.ts, collective.transfer_ns,
        COALESCE(exposed.exposed_transfer_ns, 0) AS exposed_ns,
        collective.busbw_gbps,
        exposed.hidden_ns = 0 AND collective.reliable AS is_undisturbed
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    INNER JOIN collective_exposure AS exposed USING (kernel_id)
    INNER JOIN trace ON collective.rank = trace.rank
    LEFT JOIN step ON kernel.step_id = step.step_id
    LEFT JOIN communicator ON collective.communicator_id = communicator.communicator_id
    LEFT JOIN communicator_link ON collective.communicator_id = communicator_link.communicator_id
    WHERE
        collective.group_size > 1 AND collective.transfer_ns IS NOT NULL
        AND collective.op IN ('all_reduce', 'all_gather', 'reduce_scatter', 'all_to_all')
),
size AS (
    SELECT DISTINCT device_name, link, peak_gbps, op, ranks, algorithm, bytes
    FROM operation
    WHERE bytes > 0
),
point AS (
    SELECT
        named.device_name, known.op, known.ranks, known.algorithm, known.bytes, known.ns,
        'other' AS origin
    FROM (SELECT DISTINCT device_name FROM size WHERE link LIKE 'NVLink%') AS named
    INNER JOIN known_collective AS known ON regexp_matches(named.device_name, known.device)
    UNION ALL
    SELECT device_name, op, ranks, algorithm, bytes, MIN(COALESCE(kernel_ns, ns)), 'own'
    FROM measured_collective
    WHERE algorithm IN ('nccl', 'custom')
    GROUP BY device_name, op, ranks, algorithm, bytes
),
line AS (
    SELECT
        *,
        LEAD(bytes) OVER larger AS to_bytes,
        LEAD(ns) OVER larger AS to_ns,
        ROW_NUMBER() OVER larger = 1 AS is_first
    FROM point
    WINDOW larger AS (PARTITION BY device_name, op, ranks, algorithm, origin ORDER BY bytes)
),
expected AS (
    SELECT
        size.device_name, size.op, size.ranks, size.bytes, line.algorithm,
        MIN(CASE
            WHEN size.bytes <= line.bytes THEN line.ns
            WHEN line.to_bytes IS NULL THEN line.ns * size.bytes / line.bytes
            ELSE line.ns + (line.to_ns - line.ns) * (size.bytes - line.bytes) / (line.to_bytes - line.bytes)
        END) AS ns
    FROM (
        SELECT device_name, op, ranks, bytes FROM size
        UNION
        SELECT device_name, op, ranks // 2, bytes // 2 FROM size
    ) AS size
    INNER JOIN line
        ON size.device_name = line.device_name
        AND size.op = line.op
        AND size.ranks = line.ranks
        AND (size.bytes >= line.bytes OR line.is_first)
        AND (line.to_bytes IS NULL OR size.bytes < line.to_bytes)
    GROUP BY size.device_name, size.op, size.ranks, size.bytes, line.algorithm
)
SELECT
    operation.* EXCLUDE (device_name, peak_gbps),
    COALESCE(
        own.ns,
        CASE
            WHEN operation.bytes >= 67108864 THEN operation.bytes / (0.5 * operation.peak_gbps) * CASE operation.op
                WHEN 'all_reduce' THEN 2.0 * (operation.ranks - 1) / operation.ranks
                ELSE 1.0 * (operation.ranks - 1) / operation.ranks
            END
        END
    ) AS expected_ns,
    CASE WHEN operation.op = 'all_reduce' THEN custom.ns END AS custom_ns,
    CASE operation.ranks WHEN 2 THEN 0 ELSE operation.transfer_ns * halved.ns / own.ns END AS halved_ns
FROM operation
LEFT JOIN expected AS own
    ON operation.device_name = own.device_name
    AND operation.op = own.op
    AND operation.ranks = own.ranks
    AND operation.bytes = own.bytes
    AND operation.algorithm = own.algorithm
LEFT JOIN expected AS custom
    ON operation.device_name = custom.device_name
    AND operation.op = custom.op
    AND operation.ranks = custom.ranks
    AND operation.bytes = custom.bytes
    AND custom.algorithm = 'custom'
LEFT JOIN expected AS halved
    ON operation.device_name = halved.device_name
    AND operation.op = halved.op
    AND operation.ranks // 2 = halved.ranks
    AND operation.bytes // 2 = halved.bytes
    AND operation.algorithm = halved.algorithm
