-- Products of a phase run further from their roofline than the best products of the same run.
--
-- What the best one with the same bound (arithmetic or memory) reaches, this GPU can reach, but for 5 us a product: so long take its start, its end and a reduction.
-- Attention is compared, but not as a saving: with short contexts it cannot come close.
-- @title   products below the roofline
-- @group   kernels
-- @most    notable
-- @after   fp32_or_wrong_dtype, gpu_shared, gpu_throttled, late_rank_gpu, expert_imbalance
-- @unless  gpu_shared
-- @query   efficiency.roles phase=phase
-- @record  Load with --model NAME or --model-config config.json: the roofline needs the sizes of the model.
-- @source  the best product of the same run shows what its kernels and clocks can reach; products of 5 to 26 us take 3 to 5 us more than that on an H100
-- @needs   model_config, role_time, step, time_unit, wording
-- @empty_unless model_config
WITH timed AS (
    SELECT
        CASE WHEN step.phase = 'decode' THEN 'decode' ELSE 'prefill' END AS phase,
        role_time.role,
        role_time.bound,
        COUNT(DISTINCT step.number) AS steps,
        SUM(role_time.work_ns) AS work_ns,
        -- In order: else the last digits would depend on threads.
        SUM(role_time.floor_ns ORDER BY role_time.floor_ns) / SUM(role_time.work_ns) AS reached,
        5000 * COUNT(*) / SUM(role_time.work_ns) AS start_share
    FROM role_time
    INNER JOIN step USING (step_id)
    WHERE
        role_time.kind = 'data sheet' AND role_time.flops > 0 AND role_time.floor_ns > 0 AND role_time.work_ns > 0
        AND step.phase IN ('decode', 'mixed', 'prefill')
    GROUP BY ALL
),
product AS (
    SELECT
        *,
        MAX(reached) OVER in_phase AS best,
        arg_max(role, reached) OVER in_phase AS best_role
    FROM timed
    WHERE role <> 'attention'
    WINDOW in_phase AS (PARTITION BY phase, bound)
),
lost AS (
    SELECT *, 1 - reached / best - start_share AS share, work_ns * (1 - reached / best - start_share) AS ns
    FROM product
    WHERE best <= 1 AND reached / best + start_share < 0.85
),
summed AS (
    SELECT
        COALESCE(SUM(lost.ns ORDER BY lost.ns), 0) AS ns,
        arg_max(lost, (lost.ns, lost.role)) AS most,
        string_agg(DISTINCT format('{} {:.0f}%', lost.role, 100 * lost.reached), ', ')
            FILTER (lost.phase = (SELECT arg_max(phase, (ns, role)) FROM lost) AND lost.ns > (SELECT MAX(ns) / 10 FROM lost)) AS losers
    FROM lost
),
all_products AS (
    SELECT
        COUNT(*) AS products,
        SUM(reached * work_ns ORDER BY role, phase) / SUM(work_ns) AS reached,
        SUM(work_ns) AS work_ns,
        MAX(best) AS best,
        (SELECT arg_max(timed, work_ns) FROM timed WHERE role = 'attention') AS attention
    FROM product
),
-- A role may be bound by memory in some steps of a phase, and by arithmetic in others.
in_place AS (
    SELECT product.phase, product.role, SUM(COALESCE(lost.ns, 0)) / SUM(product.work_ns) AS share
    FROM product
    LEFT JOIN lost USING (phase, role, bound)
    GROUP BY product.phase, product.role
    HAVING SUM(COALESCE(lost.ns, 0)) > 0
),
claimed AS (
    SELECT
        list({'unit': time_unit.unit, 'ns': CAST(time_unit.ns * lost.share AS BIGINT)} ORDER BY time_unit.unit) AS claims,
        COUNT(DISTINCT time_unit.number) AS steps
    FROM time_unit
    INNER JOIN step ON time_unit.step_id = step.step_id
    INNER JOIN in_place AS lost
        ON
            time_unit.role = lost.role
            AND CASE WHEN step.phase = 'decode' THEN 'decode' ELSE 'prefill' END = lost.phase
    WHERE time_unit.part = 'computing' AND time_unit.category IN ('gemm', 'moe')
),
judged AS (
    SELECT *, summed.ns > 0.05 * all_products.work_ns AS is_low
    FROM summed
    CROSS JOIN all_products
    CROSS JOIN claimed
)
SELECT
    CASE
        WHEN judged.products = 0 OR judged.best > 1 THEN NULL
        ELSE judged.is_low
    END AS is_confirmed,
    CASE
        WHEN judged.products = 0 THEN 'no product has a known least time: load with --model NAME'
        WHEN judged.best > 1 THEN 'products are faster than the data sheet allows, so the model or the peaks are not those of the run'
        ELSE format('products reach {:.0f}% of what the {} can do for them, which is as close as the best of them comes at their sizes', 100 * judged.reached, wording.device)
    END AS reason,
    format(
        'In {} steps, {} reaches {:.0f}% of the roofline, {} {:.0f}%',
        judged.most.phase, judged.most.role, 100 * judged.most.reached, judged.most.best_role, 100 * judged.most.best
    ) AS headline,
    [
        format('Of the roofline, products reach in {} steps: {}.', judged.most.phase, judged.losers),
        format('As close to it as {1} ({0:.0f}%), they would take {{saving}} less a step.', 100 * judged.most.best, judged.most.best_role),
        CASE WHEN judged.attention.reached < 0.5
            THEN format('Attention reaches {:.0f}% in {} steps.', 100 * judged.attention.reached, judged.attention.phase)
        END
    ] AS evidence,
    format(
        'traceql run efficiency.kernels DB --role {}; then compare with another GEMM backend, or fewer ranks (larger products)',
        judged.most.role
    ) AS remedy,
    'Whether another kernel is faster at these sizes: small products rarely come as close as large ones.' AS unknowns,
    judged.claims, judged.steps AS samples, judged.most.phase AS phase,
    CASE
        WHEN judged.best <= 1 AND NOT judged.is_low AND judged.reached > 0.65
            THEN format('products ({:.0f}% of the roofline)', 100 * judged.reached)
    END AS fine
FROM judged
CROSS JOIN wording
