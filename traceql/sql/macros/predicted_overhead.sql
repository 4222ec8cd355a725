-- Communication of each case, by role, and its waiting, copies and idle time, by cause; for query whatif.
--
-- Computings are those of predicted_computing. Communication is as measured, or as transfer_curve has it for the size and
-- number of ranks.
-- @kind   table macro
-- @scope  run
-- @needs  collective, fixed_cost, kernel, layout, model_part, rank_model_part, step_class_time, transfer_curve
CREATE OR REPLACE MACRO predicted_overhead(cases, classes, recording, computings, without_wait) AS TABLE
WITH case_size AS (FROM query_table(cases)),
class AS (FROM query_table(classes)),
recorded AS (FROM query_table(recording)),
computed AS (FROM query_table(computings)),
-- What the typical step of each class sends, and how long nothing else hides it, without known waiting.
member AS (
    SELECT class_id, len(step_ids) AS steps, UNNEST(step_ids) AS step_id
    FROM class
    WHERE class_id IN (SELECT base_id FROM case_size)
),
called AS (
    SELECT
        member.class_id, kernel.role,
        CASE WHEN MIN(collective.op) = MAX(collective.op) THEN MIN(collective.op) END AS op,
        CASE WHEN MIN(collective.group_size) = MAX(collective.group_size) THEN MIN(collective.group_size) END AS ranks,
        CAST(COUNT(*) AS DOUBLE) / ANY_VALUE(member.steps) AS calls,
        CASE WHEN COUNT(*) = COUNT(collective.bytes) THEN AVG(collective.bytes) END AS bytes
    FROM member
    INNER JOIN kernel ON member.step_id = kernel.step_id
    INNER JOIN collective ON kernel.id = collective.kernel_id
    GROUP BY member.class_id, kernel.role
),
lasted AS (
    SELECT class_id, role, SUM(ns ORDER BY ns) AS ns
    FROM step_class_time
    WHERE part IN ('exposed_transfer', 'exposed_unmatched')
    GROUP BY class_id, role
),
sent AS (
    SELECT called.*, COALESCE(lasted.ns, 0) AS ns
    FROM called
    LEFT JOIN lasted ON called.class_id = lasted.class_id AND called.role IS NOT DISTINCT FROM lasted.role
),
-- What tensor parallelism would add to a rank that has none: vLLM sums the activations of a token after
-- the embedding, attention and the MLP of each layer, and gathers the logits.
embedding AS (SELECT MAX(gathered_bytes) AS row_bytes FROM model_part WHERE role = 'embed'),
whole_part AS (
    SELECT rank_model_part.*
    FROM rank_model_part
    INNER JOIN recorded ON rank_model_part.rank = recorded.rank AND rank_model_part.tp = recorded.tp_size
    WHERE recorded.tp_size = 1
),
added AS (
    SELECT
        CASE whole_part.role WHEN 'o_proj' THEN 'attn_allreduce' ELSE 'mlp_allreduce' END AS role,
        'all_reduce' AS op,
        'tokens' AS rows_of,
        CAST(SUM(whole_part.layers) AS BIGINT) AS calls,
        MAX(embedding.row_bytes) AS row_bytes
    FROM whole_part
    CROSS JOIN embedding
    WHERE whole_part.role IN ('o_proj', 'down_proj', 'experts_down')
    GROUP BY ALL
    UNION ALL
    SELECT 'embed', 'all_reduce', 'tokens', 1, embedding.row_bytes
    FROM layout
    INNER JOIN recorded ON layout.rank = recorded.rank
    CROSS JOIN embedding
    WHERE layout.tp_size = 1 AND COALESCE(layout.pp_rank, 0) = 0 AND embedding.row_bytes IS NOT NULL
    UNION ALL
    SELECT 'logits_gather', 'all_gather', 'logit_rows', 1, tensor_bytes[2]
    FROM whole_part
    WHERE role = 'lm_head'
),
transfer AS (
    SELECT
        case_size.case_id, sent.role, sent.op, sent.calls,
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
    INNER JOIN sent ON case_size.base_id = sent.class_id
    UNION ALL
    SELECT
        case_size.case_id, added.role, added.op, added.calls,
        NULL,
        NULL,
        NULL,
        added.row_bytes * CASE added.rows_of WHEN 'logit_rows' THEN case_size.logit_rows ELSE case_size.executed_tokens END,
        case_size.tp
    FROM case_size
    CROSS JOIN recorded
    CROSS JOIN added
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
        wanted_curve.ns + wanted_curve.ns_per_byte * (transfer.bytes - wanted_curve.from_bytes) AS wanted_ns,
        base.ns + base.ns_per_byte * (transfer.base_bytes - base.from_bytes) AS base_ns,
        wanted_curve.source, wanted_curve.is_measured
    FROM transfer
    INNER JOIN case_size ON transfer.case_id = case_size.case_id
    LEFT JOIN curve AS wanted_curve
        ON transfer.op = wanted_curve.op
        AND transfer.ranks = wanted_curve.ranks
        AND transfer.bytes >= wanted_curve.from_bytes
        AND transfer.bytes < COALESCE(wanted_curve.to_bytes, 1e18)
    LEFT JOIN curve AS base
        ON transfer.op = base.op
        AND transfer.base_ranks = base.ranks
        AND transfer.base_bytes >= base.from_bytes
        AND transfer.base_bytes < COALESCE(base.to_bytes, 1e18)
),
transferred AS (
    SELECT
        case_id, role, measured_ns, is_measured,
        CASE
            WHEN ranks = 1 THEN 0
            WHEN is_same THEN measured_ns
            -- One whose data had gone before took no time, and cannot be scaled.
            WHEN ranks = base_ranks AND COALESCE(base_ns <> 0, TRUE) THEN measured_ns * wanted_ns / base_ns
            ELSE calls * wanted_ns
        END AS predicted_ns,
        CASE
            WHEN ranks = 1 THEN 'none with one rank'
            WHEN is_same THEN 'as measured'
            WHEN wanted_ns IS NULL THEN 'unknown'
            WHEN source = 'fixed cost' THEN 'fixed cost + link peak'
            WHEN source = 'measured' THEN 'measured collective'
            ELSE 'recorded collective'
        END AS how
    FROM lasting
),
-- Waiting, copies and idle time.
profiled_kernel AS (
    SELECT class_id, SUM(kernels ORDER BY kernels) AS kernels FROM step_class_time GROUP BY class_id
),
grown AS (
    SELECT
        case_id,
        CASE WHEN COUNT(*) = COUNT(predicted_ns) THEN SUM(predicted_ns - measured_ns ORDER BY predicted_ns - measured_ns) END AS ns
    FROM computed
    GROUP BY case_id
),
other_time AS (
    SELECT
        case_size.case_id, case_size.tp,
        case_size.in_graph AND NOT base.in_graph AS goes_to_graph,
        base.in_graph AND NOT case_size.in_graph AS leaves_graph,
        base.in_full_graph, profiled_kernel.kernels,
        grown.ns AS grown_ns,
        step_class_time.part, step_class_time.cause,
        SUM(step_class_time.ns ORDER BY step_class_time.ns) AS ns
    FROM case_size
    INNER JOIN class AS base ON case_size.base_id = base.class_id
    INNER JOIN step_class_time ON base.class_id = step_class_time.class_id
    LEFT JOIN profiled_kernel ON base.class_id = profiled_kernel.class_id
    LEFT JOIN grown ON case_size.case_id = grown.case_id
    WHERE step_class_time.part IN ('idle', 'exposed_copy', 'other_step', 'exposed_wait')
    GROUP BY ALL
    UNION ALL
    -- Ranks that the recording does not have would also wait.
    SELECT case_size.case_id, case_size.tp, FALSE, FALSE, NULL, NULL, NULL, 'exposed_wait', NULL, NULL
    FROM case_size
    CROSS JOIN recorded
    WHERE
        case_size.tp > 1
        AND NOT EXISTS (
            SELECT 1
            FROM step_class_time
            WHERE step_class_time.class_id = case_size.base_id AND step_class_time.part IN ('exposed_wait', 'exposed_unmatched')
        )
    UNION ALL
    SELECT case_size.case_id, case_size.tp, TRUE, FALSE, FALSE, profiled_kernel.kernels, NULL, 'idle', 'launch', 0
    FROM case_size
    INNER JOIN class AS base ON case_size.base_id = base.class_id
    INNER JOIN profiled_kernel ON base.class_id = profiled_kernel.class_id
    WHERE
        case_size.in_graph AND NOT base.in_graph
        AND NOT EXISTS (
            SELECT 1
            FROM step_class_time
            WHERE step_class_time.class_id = base.class_id AND step_class_time.part = 'idle' AND step_class_time.cause = 'launch'
        )
),
-- The mean time between the kernels of a replayed graph, in which nothing runs: that of recorded steps
-- that are one graph, else that of such a device.
recorded_gap AS (
    SELECT
        SUM(step_class_time.ns ORDER BY step_class_time.ns) FILTER (step_class_time.cause = 'launch')
        / SUM(step_class_time.kernels ORDER BY step_class_time.kernels) AS ns
    FROM step_class_time
    INNER JOIN class USING (class_id)
    WHERE class.in_full_graph
),
stated_gap AS (
    SELECT arg_min(fixed_cost.ns, fixed_cost.position) AS ns
    FROM recorded
    INNER JOIN fixed_cost ON fixed_cost.cost = 'graph_gap' AND regexp_matches(recorded.device_name, fixed_cost.device)
),
graph_gap AS (
    SELECT
        COALESCE(recorded_gap.ns, stated_gap.ns) AS ns,
        CASE WHEN recorded_gap.ns IS NOT NULL THEN 'recorded' WHEN stated_gap.ns IS NOT NULL THEN 'fixed cost' END AS source
    FROM recorded_gap
    CROSS JOIN stated_gap
),
ruled AS (
    SELECT
        *,
        CASE
            WHEN part = 'exposed_wait' AND without_wait THEN 'left out'
            WHEN part = 'exposed_wait' AND is_left_alone THEN 'none with one rank'
            WHEN part = 'exposed_wait' AND tp <> (SELECT tp_size FROM recorded) THEN 'unknown'
            WHEN part = 'idle' AND goes_to_graph AND cause = 'launch' THEN 'gaps of a graph'
            WHEN part = 'idle' AND goes_to_graph THEN 'none in a graph'
            WHEN part = 'idle' AND leaves_graph THEN 'unknown'
            WHEN part = 'idle' AND cause = 'host' AND NOT in_full_graph AND grown_ns IS NULL THEN 'unknown'
            WHEN part = 'idle' AND cause = 'host' AND NOT in_full_graph AND grown_ns <> 0 THEN 'host time as measured'
            ELSE 'as measured'
        END AS rule
    FROM (
        SELECT
            other_time.*,
            other_time.tp = 1 AND recorded.tp_size > 1 AND NOT COALESCE(recorded.has_stages, FALSE) AS is_left_alone
        FROM other_time
        CROSS JOIN recorded
    )
)
SELECT
    case_id,
    role AS part,
    'communication' AS kind,
    2 AS place,
    measured_ns, predicted_ns,
    NULL AS floor_ns,
    how,
    CASE
        WHEN how = 'unknown' THEN 'not measured with so many ranks'
        WHEN how = 'fixed cost + link peak' THEN 'not measured here: see fixed_cost'
        WHEN NOT is_measured AND how <> 'as measured' THEN 'size beyond those measured'
    END AS warning
FROM transferred
UNION ALL
SELECT
    ruled.case_id,
    CASE ruled.part
        WHEN 'idle' THEN 'idle: ' || COALESCE(ruled.cause, 'unknown')
        WHEN 'exposed_wait' THEN 'waiting'
        WHEN 'exposed_copy' THEN 'copies'
        ELSE ruled.part
    END AS part,
    CASE ruled.part WHEN 'exposed_wait' THEN 'waiting' WHEN 'exposed_copy' THEN 'copy' ELSE ruled.part END AS kind,
    CASE ruled.part WHEN 'exposed_wait' THEN 3 WHEN 'exposed_copy' THEN 4 WHEN 'idle' THEN 5 ELSE 6 END AS place,
    ruled.ns AS measured_ns,
    CASE
        WHEN ruled.rule IN ('left out', 'none with one rank', 'none in a graph') THEN 0
        WHEN ruled.rule = 'gaps of a graph' THEN ruled.kernels * graph_gap.ns
        WHEN ruled.rule = 'host time as measured' THEN GREATEST(ruled.ns - ruled.grown_ns, 0)
        WHEN ruled.rule = 'as measured' THEN ruled.ns
    END AS predicted_ns,
    NULL AS floor_ns,
    CASE ruled.rule WHEN 'gaps of a graph' THEN 'gaps of a graph, ' || COALESCE(graph_gap.source, 'unknown') ELSE ruled.rule END AS how,
    NULL AS warning
FROM ruled
CROSS JOIN graph_gap
