-- Matrix products compute in float32, which needs twice the bytes of bfloat16 and several times its arithmetic.
--
-- The names of kernels show it: CUTLASS's and cuBLAS's sgemm, f32f32 and tf32, and Tensile's SB.
-- @title   products in float32
-- @group   kernels
-- @query   kernels.top category='gemm'
-- @record  Record with traceql capture run, which notes the dtype.
-- @source  names of cuBLAS, CUTLASS and Tensile; float32 has twice the bytes, so products that read weights take half as long in bfloat16
-- @needs   engine_setting, kernel_use, step, time_unit
WITH product AS (
    SELECT
        *,
        regexp_matches(name, '(?i)sgemm|f32f32_(tf32|f32)f32|s1688gemm|nvjet_\w*?sss_|(gemv\w*|gemvx::kernel|gemmSN_\w+)<(int, int, )?float,')
        OR regexp_matches(name, '^Cijk_[A-Za-z]+_[A-Za-z]+_S_(MX_)?B_|^Cijk_[A-Za-z]+_[A-Za-z]+_SB_') AS is_single
    FROM kernel_use
    WHERE category = 'gemm'
),
named AS (
    SELECT
        SUM(ns) AS ns,
        COALESCE(SUM(ns) FILTER (is_single), 0) AS single_ns,
        COALESCE(SUM(ns) FILTER (is_single) / NULLIF(SUM(ns), 0), 0) AS share,
        COALESCE(SUM(kernels) FILTER (is_single), 0) AS kernels,
        COALESCE(SUM(ns) FILTER (is_single AND regexp_matches(name, '(?i)tf32|s1688')), 0) AS tf32_ns,
        arg_max(name, ns) FILTER (is_single) AS name,
        arg_max(role, ns) FILTER (is_single) AS role
    FROM product
),
in_place AS (
    SELECT rank, phase, role, symbol, SUM(ns) FILTER (is_single) / SUM(ns) AS share
    FROM product
    GROUP BY rank, phase, role, symbol
),
-- Half of them: what half the bytes would save. Products that compute save more.
claimed AS (
    SELECT list({'unit': time_unit.unit, 'ns': CAST(time_unit.ns * in_place.share / 2 AS BIGINT)} ORDER BY time_unit.unit) AS claims
    FROM time_unit
    LEFT JOIN step ON time_unit.step_id = step.step_id
    INNER JOIN in_place
        ON
            time_unit.rank = in_place.rank AND time_unit.role IS NOT DISTINCT FROM in_place.role
            AND time_unit.symbol = in_place.symbol AND step.phase IS NOT DISTINCT FROM in_place.phase
    WHERE time_unit.part = 'computing' AND time_unit.category = 'gemm' AND in_place.share > 0
),
judged AS (
    SELECT named.*, setting.dtype, setting.has_config, setting.dtype = 'float32' AS is_asked
    FROM named
    CROSS JOIN engine_setting AS setting
)
SELECT
    CASE
        WHEN judged.ns IS NULL THEN NULL
        WHEN judged.share < 0.05 THEN FALSE
        WHEN judged.is_asked THEN TRUE
        WHEN judged.has_config THEN NULL
        ELSE judged.share > 0.5 OR NULL
    END AS is_confirmed,
    CASE
        WHEN judged.ns IS NULL THEN 'no matrix product was recorded'
        WHEN judged.share < 0.05 AND judged.is_asked
            THEN 'run.json has dtype float32, but the names of the products do not say that they compute in it'
        WHEN judged.share < 0.05 THEN 'the names of the products do not say float32'
        WHEN judged.has_config AND judged.dtype IS NOT NULL THEN format(
            '{:.0f}% of the time of products{} is in float32, though run.json has dtype {}: look for what the model converts',
            100 * judged.share, COALESCE(', most in ' || judged.role || ',', ''), judged.dtype
        )
        ELSE format(
            '{:.0f}% of the time of products{} is in float32, and no run.json says whether that is meant',
            100 * judged.share, COALESCE(', most in ' || judged.role || ',', '')
        )
    END AS reason,
    format('Products in float32 take {:.0f}% of the time of products', 100 * judged.share) AS headline,
    [
        CASE WHEN judged.is_asked THEN 'run.json has dtype float32.' END,
        format('{:,} products, such as {}, take {:.1f} ms on all ranks.', judged.kernels, judged.name[:60], judged.single_ns / 1e6)
    ] AS evidence,
    CASE
        WHEN judged.is_asked THEN '--dtype bfloat16'
        WHEN judged.tf32_ns > 0.5 * judged.single_ns THEN 'torch.autocast("cuda", dtype=torch.bfloat16)'
        ELSE 'torch.autocast("cuda", dtype=torch.bfloat16); or torch.set_float32_matmul_precision("high")'
    END AS remedy,
    'Whether results stay as good. Products that compute, rather than read weights, save more than half.' AS unknowns,
    claimed.claims, judged.kernels AS samples
FROM judged
CROSS JOIN claimed
