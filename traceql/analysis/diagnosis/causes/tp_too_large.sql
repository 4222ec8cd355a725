-- Transfers between tensor-parallel ranks take much of a step, and fewer ranks would hold the model.
-- @title   more tensor-parallel ranks than needed
-- @group   communication
-- @after   custom_all_reduce_off
-- @unless  p2p_off, nccl_protocol
-- @query   tp.overhead
-- @record  Load with the configuration of the model (--model-config).
-- @source  rule of thumb: communication below 15% of a step is normal; fewer ranks read more weights each, which costs what is computed here
-- @needs   cost, layout, model_part, peak, role_time, time_scale, time_unit, timed_collective
WITH parallel AS (
    SELECT MAX(tp_size) AS tp, MAX(pp_size) AS pp FROM layout
),
moved AS (
    SELECT
        SUM(exposed_ns) AS ns,
        SUM(exposed_ns * halved_ns / NULLIF(transfer_ns, 0)) AS halved_ns,
        COUNT(*) AS operations,
        COUNT(halved_ns) AS known,
        COUNT(DISTINCT number) AS steps,
        arg_max(rank, exposed_ns) AS rank, arg_max(ts, exposed_ns) AS ts, arg_max(transfer_ns, exposed_ns) AS dur,
        BOOL_AND(is_vllm) AS is_vllm,
        quantile_cont(CASE WHEN is_undisturbed THEN transfer_ns / expected_ns END, 0.5) AS ratio
    FROM timed_collective
    WHERE scope = 'tensor'
),
phase AS (
    SELECT arg_max(phase, ns) AS phase
    FROM (SELECT phase, SUM(exposed_ns) AS ns FROM timed_collective WHERE scope = 'tensor' GROUP BY phase)
),
-- Half as many ranks: each reads twice the weights, for half of the requests. What is bound by FLOPs takes as long.
longer AS (
    SELECT SUM(role_time.work_ns * cost.weight_bytes / cost.hbm_bytes) AS ns
    FROM role_time
    INNER JOIN cost
        ON role_time.rank = cost.rank
        AND role_time.step_id = cost.step_id
        AND role_time.role = cost.role
        AND role_time.layer IS NOT DISTINCT FROM cost.layer
    WHERE role_time.kind = 'data sheet' AND role_time.bound = 'memory' AND cost.weight_bytes > 0 AND cost.hbm_bytes > 0
),
weight AS (
    SELECT
        SUM(model_part.weight_bytes) FILTER (model_part.tp = parallel.tp // 2) / ANY_VALUE(COALESCE(parallel.pp, 1)) AS bytes,
        COUNT(*) FILTER (model_part.tp = parallel.tp // 2 AND model_part.weight_bytes IS NULL) AS missing
    FROM model_part
    CROSS JOIN parallel
),
device AS (
    SELECT MIN(memory_bytes) AS memory_bytes FROM peak WHERE kind = 'data sheet'
),
judged AS (
    SELECT
        moved.*, parallel.tp, phase.phase,
        weight.bytes AS weight_bytes, device.memory_bytes,
        moved.ns / (scale.devices * scale.steps) AS step_transfer_ns,
        longer.ns / (scale.devices * scale.steps) AS step_longer_ns,
        (moved.ns - moved.halved_ns) / (scale.devices * scale.steps) AS step_less_ns,
        moved.ns / (scale.devices * scale.steps * scale.step_ns) AS share,
        1 - (moved.halved_ns + COALESCE(longer.ns, 0)) / NULLIF(moved.ns, 0) AS saved_share,
        weight.bytes IS NOT NULL AND weight.missing = 0 AND longer.ns IS NOT NULL AS is_model_known,
        weight.bytes < 0.6 * device.memory_bytes AS fits
    FROM moved
    CROSS JOIN parallel
    CROSS JOIN phase
    CROSS JOIN longer
    CROSS JOIN weight
    CROSS JOIN device
    LEFT JOIN time_scale AS scale ON TRUE
),
share AS (
    SELECT rank, step_id, role, SUM(exposed_ns) FILTER (scope = 'tensor') / NULLIF(SUM(exposed_ns), 0) AS share
    FROM timed_collective
    GROUP BY rank, step_id, role
),
claimed AS (
    SELECT list({'unit': unit, 'ns': CAST(time_unit.ns * share.share * judged.saved_share AS BIGINT)} ORDER BY unit) AS claims
    FROM time_unit
    INNER JOIN share
        ON time_unit.rank = share.rank
        AND time_unit.step_id IS NOT DISTINCT FROM share.step_id
        AND time_unit.role IS NOT DISTINCT FROM share.role
    CROSS JOIN judged
    WHERE time_unit.part = 'transfer' AND share.share > 0 AND judged.saved_share > 0
)
SELECT
    CASE
        WHEN tp = 1 OR operations = 0 OR NOT is_vllm THEN FALSE
        WHEN tp IS NULL THEN NULL
        WHEN share < 0.15 THEN FALSE
        WHEN ratio >= 1.67 THEN FALSE
        WHEN NOT is_model_known OR known < operations THEN NULL
        WHEN NOT fits THEN FALSE
        ELSE saved_share > 0
    END AS is_confirmed,
    CASE
        WHEN tp = 1 THEN 'there is one tensor-parallel rank'
        WHEN operations = 0 THEN 'no transfer between tensor-parallel ranks was matched'
        WHEN NOT is_vllm THEN 'vLLM did not run the steps'
        WHEN tp IS NULL THEN 'the number of tensor-parallel ranks is unknown'
        WHEN share < 0.15 THEN format('transfers take {:.0f}% of a step', 100 * share)
        WHEN ratio >= 1.67 THEN format('the link is slow: transfers take {:.1f} times as long as elsewhere', ratio)
        WHEN NOT is_model_known THEN 'the model is unknown: load with --model-config'
        WHEN known < operations THEN 'how fast half as many ranks communicate is unknown'
        WHEN NOT fits
            THEN format(
                'the weights would take {:.0f} of {:.0f} GiB on each of {} ranks', weight_bytes / 1073741824, memory_bytes / 1073741824, tp // 2
            )
        WHEN saved_share <= 0 THEN format(
            'with {} ranks, transfers take {:.2f} ms a step less, but reading the weights {:.2f} ms more',
            tp // 2, step_less_ns / 1e6, step_longer_ns / 1e6
        )
    END AS reason,
    format('Transfers between {} ranks take {:.0f}% of a step; {} would hold the model', tp, 100 * share, tp // 2) AS headline,
    [
        format('No compute hides {:.2f} ms of transfers a step; half as many ranks would need {:.2f} ms less.', step_transfer_ns / 1e6, step_less_ns / 1e6),
        format('Each rank would read twice the weights, which takes {:.2f} ms more.', step_longer_ns / 1e6),
        format(
            'The weights take {:.1f} of {:.0f} GiB on each of {} ranks.', weight_bytes / 1073741824, memory_bytes / 1073741824, tp // 2
        )
    ] AS evidence,
    format('--tensor-parallel-size {} --data-parallel-size 2', tp // 2) AS remedy,
    'Whether the KV cache of the longest requests fits beside the weights, and what the two engines do with uneven load: measure it.' AS unknowns,
    claimed.claims, steps AS samples, phase, rank, ts, dur
FROM judged
CROSS JOIN claimed
