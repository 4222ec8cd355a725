-- Communication of each case, by role: as measured, or as transfer_curve has it for the size and number of ranks; for query whatif.
-- @kind   table macro
-- @scope  run
-- @needs  class_transfer, model_transfer, transfer_curve
CREATE OR REPLACE MACRO predicted_transfer(cases, classes, recording) AS TABLE
WITH case_size AS (
    FROM query_table(cases)
),
class AS (
    FROM query_table(classes)
),
recorded AS (
    FROM query_table(recording)
),
transfer AS (
    SELECT
        case_size.case_id,
        sent.role,
        sent.op,
        sent.calls,
        sent.ns AS measured_ns,
        sent.bytes AS base_bytes,
        sent.ranks AS base_ranks,
        sent.bytes * CASE
            WHEN sent.role = 'logits_gather' THEN case_size.logit_rows / base.logit_rows
            ELSE case_size.executed_tokens / base.executed_tokens
        END AS bytes,
        CASE
            WHEN case_size.tp = recorded.tp_size THEN sent.ranks
            WHEN
                sent.ranks = recorded.tp_size
                AND sent.role IN ('attn_allreduce', 'mlp_allreduce', 'embed', 'logits_gather')
                THEN case_size.tp
        END AS ranks
    FROM case_size
    CROSS JOIN recorded
    INNER JOIN class AS base ON case_size.base_id = base.class_id
    INNER JOIN class_transfer AS sent ON case_size.base_id = sent.class_id
    UNION ALL
    SELECT
        case_size.case_id,
        added.role,
        added.op,
        added.calls,
        NULL,
        NULL,
        NULL,
        added.row_bytes * CASE added.rows_of WHEN 'logit_rows' THEN case_size.logit_rows ELSE case_size.executed_tokens END,
        case_size.tp
    FROM case_size
    CROSS JOIN recorded
    INNER JOIN model_transfer AS added ON recorded.rank = added.rank
    WHERE recorded.tp_size = 1 AND case_size.tp > 1
),
curve AS (
    SELECT transfer_curve.* EXCLUDE (device_name)
    FROM transfer_curve
    INNER JOIN recorded ON transfer_curve.device_name IS NOT DISTINCT FROM recorded.device_name
),
lasting AS (
    SELECT
        transfer.*,
        transfer.ranks = transfer.base_ranks
        AND (transfer.bytes = transfer.base_bytes OR (transfer.bytes IS NULL AND case_size.is_of_same_batch))
            AS is_same,
        asked.ns + asked.ns_per_byte * (transfer.bytes - asked.from_bytes) AS asked_ns,
        base.ns + base.ns_per_byte * (transfer.base_bytes - base.from_bytes) AS base_ns,
        asked.source,
        asked.is_measured
    FROM transfer
    INNER JOIN case_size ON transfer.case_id = case_size.case_id
    LEFT JOIN curve AS asked
        ON transfer.op = asked.op
        AND transfer.ranks = asked.ranks
        AND transfer.bytes >= asked.from_bytes
        AND transfer.bytes < COALESCE(asked.to_bytes, 1e18)
    LEFT JOIN curve AS base
        ON transfer.op = base.op
        AND transfer.base_ranks = base.ranks
        AND transfer.base_bytes >= base.from_bytes
        AND transfer.base_bytes < COALESCE(base.to_bytes, 1e18)
),
transferred AS (
    SELECT
        case_id,
        role,
        measured_ns,
        is_measured,
        CASE
            WHEN ranks = 1 THEN 0
            WHEN is_same THEN measured_ns
            -- One whose data had gone before took no time, and cannot be scaled.
            WHEN ranks = base_ranks AND COALESCE(base_ns <> 0, TRUE) THEN measured_ns * asked_ns / base_ns
            ELSE calls * asked_ns
        END AS predicted_ns,
        CASE
            WHEN ranks = 1 THEN 'none with one rank'
            WHEN is_same THEN 'as measured'
            WHEN asked_ns IS NULL THEN 'unknown'
            WHEN source = 'fixed cost' THEN 'fixed cost + link peak'
            WHEN source = 'measured' THEN 'measured collective'
            ELSE 'recorded collective'
        END AS how
    FROM lasting
)
SELECT
    case_id,
    role AS part,
    'communication' AS kind,
    2 AS place,
    measured_ns,
    predicted_ns,
    NULL AS floor_ns,
    how,
    CASE
        WHEN how = 'unknown' THEN 'not measured with so many ranks'
        WHEN how = 'fixed cost + link peak' THEN 'not measured here: see fixed_cost'
        WHEN NOT is_measured AND how <> 'as measured' THEN 'size beyond those measured'
    END AS warning
FROM transferred
