-- One row per rank, step, layer and role: what its kernels had to do at least.
--
-- docs/definitions.md, section "Speed of light", has the formulas. What is not known is NULL, and
-- column missing has the reason; nothing is guessed.
-- @schema main
-- @scope  run
-- @needs  collective, kernel, role_work
-- @empty_unless role_work
-- @column rank                BIGINT   Rank.
-- @column step_id             BIGINT   Step (step.step_id).
-- @column layer               BIGINT   Model layer, from 0; NULL outside layers.
-- @column role                VARCHAR  Part of the model (kernel.role).
-- @column kernels             BIGINT   Number of its kernels, copies and memory sets.
-- @column dur_ns              BIGINT   Sum of their durations, ns.
-- @column flops               BIGINT   Useful FLOPs, a multiply-add being two: without the rows that pad a batch; NULL if unknown.
-- @column executed_flops      BIGINT   The same with padded rows, as far as they are known; NULL if unknown.
-- @column weight_bytes        BIGINT   Bytes of weights that are read once; of experts, those expected to be chosen if all are equally likely. NULL if unknown.
-- @column kv_bytes            BIGINT   Bytes of the KV cache that are read and written; NULL if unknown.
-- @column activation_bytes    BIGINT   Bytes of activations that are read and written, from the cache or from memory; NULL if unknown.
-- @column hbm_bytes           BIGINT   Compulsory bytes: weights, KV cache, and of each activation what is larger than the L2 cache; NULL if unknown.
-- @column executed_hbm_bytes  BIGINT   The same with padded rows; NULL if unknown.
-- @column wire_bytes          BIGINT   Bytes that the rank has to send to others: size of the buffer x factor of nccl-tests; NULL without communication, or if unknown.
-- @column dtype               VARCHAR  Whose peak the FLOPs count against (peak.dtype); NULL if unknown.
-- @column formula             VARCHAR  Formula (cost_formula.formula); NULL if there is none for this role.
-- @column source              VARCHAR  Where the sizes come from: shapes (of the operators), configuration (of the model) or arguments (of the communication); NULL if unknown.
-- @column missing             VARCHAR  What is missing for flops and hbm_bytes, or for wire_bytes of a role that only communicates; NULL if nothing is.
WITH called AS (
    SELECT rank, step_id, layer, role, COUNT(*) AS kernels, SUM(dur)::BIGINT AS dur_ns
    FROM kernel
    WHERE role IS NOT NULL AND step_id IS NOT NULL
    GROUP BY rank, step_id, layer, role
),
sent AS (
    SELECT
        kernel.rank, kernel.step_id, kernel.layer, kernel.role,
        collective.bytes * CASE
            WHEN collective.op = 'all_reduce' THEN 2.0 * (collective.group_size - 1) / collective.group_size
            WHEN collective.op IN ('all_gather', 'reduce_scatter', 'all_to_all')
                THEN 1.0 * (collective.group_size - 1) / collective.group_size
            WHEN collective.op IN ('broadcast', 'reduce', 'send', 'recv') THEN 1.0
        END AS bytes,
        collective.bytes IS NOT NULL AND collective.group_size IS NOT NULL AS is_known,
        CASE collective.bytes_source WHEN 'args' THEN 'arguments' WHEN 'inferred' THEN 'configuration' ELSE 'shapes' END AS source,
        collective.op
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
),
wire AS (
    SELECT
        rank, step_id, layer, role,
        SUM(bytes ORDER BY bytes) AS bytes,
        BOOL_AND(is_known) AS is_known,
        MIN(source) AS source,
        MIN(op) AS op
    FROM sent
    GROUP BY rank, step_id, layer, role
)
SELECT
    called.rank, called.step_id, called.layer, called.role, called.kernels, called.dur_ns,
    work.flops, work.executed_flops, work.weight_bytes, work.kv_bytes, work.activation_bytes,
    work.hbm_bytes, work.executed_hbm_bytes,
    CAST(CASE WHEN wire.is_known THEN wire.bytes END AS BIGINT) AS wire_bytes,
    work.dtype,
    COALESCE(work.formula, wire.op) AS formula,
    CASE
        WHEN work.only_communicates AND wire.is_known THEN wire.source
        WHEN NOT work.only_communicates THEN work.source
    END AS source,
    CASE
        WHEN work.only_communicates AND wire.bytes IS NULL THEN 'size of the buffer'
        ELSE work.missing
    END AS missing
FROM called
INNER JOIN role_work AS work
    ON called.step_id = work.step_id
    AND called.role = work.role
    AND list_contains(work.layers, COALESCE(called.layer, -1))
LEFT JOIN wire
    ON called.rank = wire.rank
    AND called.step_id = wire.step_id
    AND called.role = wire.role
    AND called.layer IS NOT DISTINCT FROM wire.layer
ORDER BY called.step_id, called.layer, called.role
