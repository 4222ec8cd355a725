-- One row per part of a step: how long it would take with another batch, layout or GPU, and how that follows from the recording.
--
-- Use it before you change a deployment: what would a decode step of 32 requests, tensor parallelism
-- of 4, CUDA graphs, or another GPU take? The last row is the whole step. The prediction starts from
-- the recorded steps whose batch is nearest to the requested one (their means are measured_ns), and each
-- part changes by what the model's configuration and the peaks of the GPU say; docs/definitions.md,
-- section "What if", has the method and how well it predicts.
--
-- What is not known is NULL, and then the total is a lower bound and says so. Where the prediction
-- goes beyond what was recorded, warning says so. error_pct of the total is the error of the same
-- method on the recorded steps: each size of step is predicted from the other sizes, and compared with
-- the time that it took; with --no-wait, both are without waiting.
-- @param  batch         BIGINT  = NULL      Requests in a step; by default, those of most recorded steps. A mixed step keeps its share of prompts.
-- @param  context       BIGINT  = NULL      Mean tokens of a request in the KV cache; in prefill, tokens of a prompt. By default, as recorded; if the recording does not say, also those of its own steps.
-- @param  tp            BIGINT  = NULL      Tensor-parallel size (1, 2, 4, 8 or 16); by default, that of the recording.
-- @param  graph         VARCHAR = NULL      Whether CUDA graphs are replayed; by default, as recorded.
-- @param  no_wait       BOOLEAN = FALSE     Without waiting for other ranks.
-- @param  peak          VARCHAR = NULL      Another GPU, such as h100: a regular expression, matched with the names in data_sheet_peak.example; the first one counts.
-- @param  phase         VARCHAR = 'decode'  Steps to predict.
-- @param  rank          BIGINT  = 0         Rank whose steps to predict.
-- @range  batch         1 65536
-- @range  context       1 10000000
-- @values graph         on off
-- @values phase         prefill decode mixed idle
-- @column part          VARCHAR  Role of the kernels, waiting, idle with its cause, or total.
-- @column kind          VARCHAR  computing, communication, copy, waiting, idle, other_step (kernels of another step run) or total.
-- @column measured_ns   DOUBLE   Mean time in a recorded step, ns; NULL if the recording does not have the part.
-- @column predicted_ns  DOUBLE   Time in the predicted step, ns; NULL if unknown; a lower bound of the total if a part is NULL.
-- @column floor_ns      DOUBLE   The least that the GPU's data sheet allows for it, ns; NULL if unknown or if there is none. Of the total, a lower bound if that of a part is unknown: warning names these parts.
-- @column how           VARCHAR  How the prediction was made.
-- @column error_pct     DOUBLE   Median error of the same method on recorded steps, each size predicted from another, percent, of the parts that are predicted; NULL except of the total, and if only one size was recorded.
-- @column warning       VARCHAR  Why the prediction may be wrong; NULL if nothing is known against it.
-- @key    part predicted_ns measured_ns how warning error_pct kind floor_ns
-- @empty  the rank has no steps of this phase with known numbers of tokens and kernels (see step_class)
-- @chart  stacked x=predicted_ns y=part color=kind
-- @title  Predicted step, by part
WITH
-- The asked GPU.
other_device AS MATERIALIZED (
    SELECT device, COALESCE(example, device) AS name
    FROM data_sheet_peak
    WHERE regexp_matches(COALESCE(example, device), '(?i)' || $peak::VARCHAR)
    ORDER BY position
    LIMIT 1
),
-- A question for the GPU that was recorded changes nothing.
recorded AS MATERIALIZED (
    SELECT
        layout.rank, layout.tp_size,
        layout.pp_size > 1 AS has_stages,
        trace.device_name,
        COALESCE($tp::BIGINT, layout.tp_size) AS asked_tp,
        $peak::VARCHAR IS NOT NULL AND COALESCE(
            (SELECT device FROM other_device) <> (
                SELECT arg_min(own.device, own.position)
                FROM data_sheet_peak AS own
                WHERE regexp_matches(trace.device_name, own.device)
            ),
            TRUE
        ) AS is_elsewhere
    FROM layout
    INNER JOIN trace USING (rank)
    WHERE layout.rank = $rank::BIGINT
    ORDER BY trace.path
    LIMIT 1
),
-- Roofs of the recorded GPU and of the requested one.
roof AS MATERIALIZED (
    SELECT FALSE AS is_asked, peak.dtype, peak.tflops, peak.hbm_gbps, peak.l2_bytes, peak.memory_bytes
    FROM recorded
    INNER JOIN peak ON recorded.device_name = peak.device_name AND peak.kind = 'data sheet'
    UNION ALL
    SELECT TRUE, data_sheet_peak.dtype, data_sheet_peak.tflops, data_sheet_peak.hbm_gbps, data_sheet_peak.l2_bytes,
        data_sheet_peak.memory_bytes
    FROM data_sheet_peak
    INNER JOIN other_device USING (device)
),
-- What the rank computes, with the recorded and the asked tensor-parallel size.
model AS MATERIALIZED (
    SELECT rank_model_part.*
    FROM rank_model_part
    CROSS JOIN recorded
    WHERE rank_model_part.rank = $rank::BIGINT AND rank_model_part.tp IN (recorded.tp_size, recorded.asked_tp)
),
-- Recorded sizes of step; where their KV lengths are unknown, they have the requested ones.
class AS MATERIALIZED (
    SELECT
        step_class.* REPLACE (
            COALESCE(step_class.kv_tokens, step_class.batch * $context::BIGINT) AS kv_tokens,
            CASE WHEN step_class.context_requests = 0 THEN 0 ELSE step_class.context_pairs END AS context_pairs,
            CASE WHEN step_class.generation_requests = 0 THEN 0 ELSE COALESCE(
                step_class.generation_pairs, (step_class.tokens - step_class.context_requests) * $context::BIGINT
            ) END AS generation_pairs
        ),
        step_class.phase = $phase::VARCHAR AS is_of_phase
    FROM step_class
    WHERE step_class.rank = $rank::BIGINT
),
-- The default batch, and the recorded size from which the requested one is predicted.
usual AS MATERIALIZED (
    SELECT batch
    FROM class
    WHERE is_of_phase
    ORDER BY ($graph::VARCHAR IS NOT NULL AND in_graph <> ($graph::VARCHAR = 'on')), steps DESC, batch DESC
    LIMIT 1
),
based AS MATERIALIZED (
    SELECT class.*, COALESCE($batch::BIGINT, usual.batch) AS asked_batch
    FROM class
    CROSS JOIN usual
    WHERE class.is_of_phase AND class.batch > 0
    ORDER BY
        ($graph::VARCHAR IS NOT NULL AND class.in_graph <> ($graph::VARCHAR = 'on')),
        NOT class.is_frequent,
        ABS(ln(class.batch / GREATEST(COALESCE($batch::BIGINT, usual.batch), 1))),
        class.steps DESC,
        class.class_id
    LIMIT 1
),
-- Recorded classes like the base, each with the nearest other one, from which it is predicted in turn.
checked AS MATERIALIZED (
    SELECT class.*, other.class_id AS base_id
    FROM (
        SELECT class.*
        FROM class
        INNER JOIN based ON class.in_full_graph = based.in_full_graph AND class.in_graph = based.in_graph
        WHERE class.is_of_phase
        ORDER BY class.steps DESC, class.class_id
        LIMIT 32
    ) AS class
    INNER JOIN class AS other
        ON other.is_of_phase
        AND class.class_id <> other.class_id
        AND class.in_full_graph = other.in_full_graph
        AND class.in_graph = other.in_graph
    WHERE class.batch > 0 AND other.batch > 0
    QUALIFY ROW_NUMBER() OVER (
        PARTITION BY class.class_id
        ORDER BY NOT other.is_frequent, ABS(ln(other.batch / class.batch)), other.steps DESC, other.class_id
    ) = 1
),
-- Sizes of step to predict, each with the recorded class that it is predicted from: case -1, which is the asked
-- one, and recorded ones, to see how well that works.
case_size AS MATERIALIZED (
    SELECT
        -1 AS case_id,
        NULL AS own_class_id,
        based.class_id AS base_id,
        based.asked_batch = based.batch AS is_of_same_batch,
        recorded.asked_tp AS tp,
        recorded.is_elsewhere AS is_asked,
        COALESCE($graph::VARCHAR = 'on', based.in_graph) AS in_graph,
        CASE
            WHEN based.asked_batch = based.batch AND ($phase::VARCHAR <> 'prefill' OR $context::BIGINT IS NULL)
                THEN based.executed_tokens
            WHEN $phase::VARCHAR = 'prefill' AND $context::BIGINT IS NOT NULL THEN based.asked_batch * $context::BIGINT
            ELSE based.asked_batch * based.tokens / based.batch
        END::DOUBLE AS executed_tokens,
        (based.asked_batch * based.logit_rows / based.batch)::DOUBLE AS logit_rows,
        CASE
            WHEN $phase::VARCHAR = 'decode' THEN 0.0
            WHEN $phase::VARCHAR = 'prefill' AND $context::BIGINT IS NOT NULL
                THEN based.asked_batch * $context::BIGINT * ($context::BIGINT + 1) / 2
            ELSE based.asked_batch * based.context_pairs / based.batch
        END AS context_pairs,
        CASE
            WHEN $phase::VARCHAR = 'prefill' THEN 0.0
            WHEN $phase::VARCHAR = 'decode' AND $context::BIGINT IS NOT NULL
                THEN based.asked_batch * $context::BIGINT * based.tokens / based.batch
            ELSE based.asked_batch * based.generation_pairs / based.batch
        END AS generation_pairs,
        CASE
            -- Divided and multiplied, it would not always be the recorded number to the last digit.
            WHEN based.asked_batch = based.batch AND $context::BIGINT IS NULL THEN based.kv_tokens
            ELSE based.asked_batch * COALESCE($context::BIGINT, based.kv_tokens / based.batch)
        END AS kv_tokens
    FROM based
    CROSS JOIN recorded
    UNION ALL
    SELECT
        checked.class_id, checked.class_id, checked.base_id,
        FALSE,
        recorded.tp_size,
        FALSE,
        checked.in_graph, checked.executed_tokens, checked.logit_rows, checked.context_pairs,
        checked.generation_pairs, checked.kv_tokens
    FROM checked
    CROSS JOIN recorded
),
-- Parts of the model with their numbers of rows, for each case and each class, by the same formulas.
situation AS (
    SELECT
        TRUE AS is_case, case_id AS id, tp, is_asked, executed_tokens, logit_rows, context_pairs, generation_pairs, kv_tokens
    FROM case_size
    UNION ALL
    SELECT
        FALSE, class.class_id, recorded.tp_size, FALSE, class.executed_tokens, class.logit_rows, class.context_pairs,
        class.generation_pairs, class.kv_tokens
    FROM class
    CROSS JOIN recorded
),
sized AS MATERIALIZED (
    SELECT
        situation.*,
        model.* EXCLUDE (tp),
        CASE model.rows_of WHEN 'logit_rows' THEN situation.logit_rows ELSE situation.executed_tokens END AS row_count,
        model.context_pair_flops + model.generation_pair_flops > 0 AS attends
    FROM situation
    INNER JOIN model USING (tp)
),
-- What follows is split into macros by subject: to each, the tables above are given by name.
computed AS MATERIALIZED (
    FROM predicted_computing('case_size', 'class', 'recorded', 'sized', 'roof')
),
part AS MATERIALIZED (
    FROM computed
    UNION ALL
    FROM predicted_overhead('case_size', 'class', 'recorded', 'computed', $no_wait::BOOLEAN)
),
needed AS (
    SELECT
        SUM(bytes ORDER BY bytes) AS bytes,
        (SELECT MAX(memory_bytes) FROM roof WHERE is_asked = ($peak::VARCHAR IS NOT NULL)) AS memory_bytes
    FROM (
        SELECT layers * (weight_bytes + COALESCE(kv_bytes * kv_tokens, 0)) AS bytes
        FROM sized
        WHERE is_case AND id = -1
    )
),
totalled AS (
    SELECT
        case_id,
        SUM(measured_ns ORDER BY measured_ns) AS measured_ns,
        SUM(predicted_ns ORDER BY predicted_ns) AS predicted_ns,
        SUM(floor_ns ORDER BY floor_ns) AS floor_ns,
        string_agg(DISTINCT part, ', ' ORDER BY part) FILTER (predicted_ns IS NULL) AS unknown_parts,
        string_agg(DISTINCT part, ', ' ORDER BY part) FILTER (
            kind = 'computing'
            AND predicted_ns IS NOT NULL
            AND floor_ns IS NULL
            AND part IN (SELECT UNNEST(roles) FROM cost_formula)
        ) AS floorless_parts
    FROM part
    GROUP BY case_id
),
-- What recorded steps waited, if the prediction is without it.
left_out AS (
    SELECT class_id, SUM(ns ORDER BY ns) AS ns
    FROM step_class_time
    WHERE part = 'exposed_wait' AND $no_wait::BOOLEAN
    GROUP BY class_id
),
-- Predicted and recorded steps are compared without the parts that are unknown or left out.
tested AS (
    SELECT
        median(100 * ABS(
            totalled.predicted_ns / NULLIF(class.gpu_ns - COALESCE(unknown.ns, 0) - COALESCE(left_out.ns, 0), 0) - 1
        )) AS error_pct
    FROM totalled
    INNER JOIN class ON totalled.case_id = class.class_id
    LEFT JOIN left_out ON class.class_id = left_out.class_id
    LEFT JOIN (
        SELECT part.case_id, SUM(computing.ns ORDER BY computing.ns) AS ns, BOOL_AND(part.kind = 'computing') AS is_known
        FROM part
        LEFT JOIN step_class_time AS computing
            ON part.case_id = computing.class_id AND part.part = computing.role AND computing.part = 'computing'
        WHERE part.predicted_ns IS NULL
        GROUP BY part.case_id
    ) AS unknown ON totalled.case_id = unknown.case_id
    WHERE COALESCE(unknown.is_known, TRUE)
),
answer AS (
    SELECT
        part, kind, place, measured_ns, predicted_ns, floor_ns,
        CASE WHEN predicted_ns IS NULL THEN 'unknown' ELSE how END AS how,
        NULL AS error_pct,
        warning
    FROM part
    WHERE case_id = -1
    UNION ALL
    SELECT
        'total',
        'total',
        7,
        totalled.measured_ns,
        CASE WHEN question.is_possible THEN totalled.predicted_ns END,
        CASE WHEN question.is_possible THEN totalled.floor_ns END,
        CASE
            WHEN NOT question.is_possible THEN 'unknown'
            WHEN totalled.unknown_parts IS NULL THEN 'sum'
            ELSE 'lower bound'
        END,
        tested.error_pct,
        NULLIF(concat_ws(
            '; ',
            'without ' || totalled.unknown_parts,
            CASE WHEN totalled.floor_ns IS NOT NULL THEN 'floor is a lower bound: without ' || totalled.floorless_parts END,
            CASE
                WHEN recorded.device_name IS NULL THEN 'peaks unknown: the trace does not name its GPU'
                WHEN NOT EXISTS (FROM roof WHERE NOT is_asked)
                    THEN format('peaks of {} unknown: load with --peaks', recorded.device_name)
            END,
            CASE WHEN $peak::VARCHAR IS NOT NULL THEN COALESCE(
                'GPU: ' || (SELECT name FROM other_device) || CASE WHEN recorded.is_elsewhere THEN '' ELSE ', as recorded' END,
                'no GPU of data_sheet_peak has such a name'
            ) END,
            CASE
                WHEN recorded.is_elsewhere AND EXISTS (FROM part WHERE case_id = -1 AND kind = 'communication')
                    THEN 'communication as on ' || recorded.device_name
            END,
            CASE WHEN needed.bytes > needed.memory_bytes THEN format(
                'does not fit: weights and KV cache take {:.0f} GB', needed.bytes / 1e9
            ) END,
            CASE WHEN based.batch <> based.asked_batch THEN format('from a batch of {}', based.batch) END,
            CASE
                WHEN recorded.asked_tp IS NULL THEN 'tensor-parallel size unknown: load all ranks'
                WHEN NOT EXISTS (FROM model) THEN 'no model configuration: load with --model-config'
            END,
            CASE WHEN EXISTS (FROM model) AND recorded.asked_tp NOT IN (SELECT tp FROM model) THEN 'tp can be 1, 2, 4, 8 or 16' END,
            CASE WHEN based.kv_tokens IS NULL THEN 'KV lengths unknown: give --context' END,
            CASE
                WHEN tested.error_pct IS NULL THEN 'no other size was recorded to check it'
                WHEN question.is_elsewhere THEN 'error_pct is that of other batches as recorded, not of this question'
            END
        ), '')
    FROM totalled
    CROSS JOIN tested
    CROSS JOIN based
    CROSS JOIN recorded
    CROSS JOIN needed
    CROSS JOIN (
        SELECT
            (NOT EXISTS (FROM model) OR recorded.asked_tp IN (SELECT tp FROM model))
            AND ($peak::VARCHAR IS NULL OR EXISTS (FROM other_device)) AS is_possible,
            COALESCE($tp::BIGINT, 0) > 0 OR $graph::VARCHAR IS NOT NULL OR is_elsewhere AS is_elsewhere
        FROM recorded
    ) AS question
    WHERE totalled.case_id = -1
)
SELECT part, kind, measured_ns, predicted_ns, floor_ns, how, error_pct, warning
FROM answer
ORDER BY place, GREATEST(COALESCE(measured_ns, 0), COALESCE(predicted_ns, 0)) DESC, part
