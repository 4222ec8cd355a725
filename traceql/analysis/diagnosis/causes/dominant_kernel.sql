-- A kind of kernel takes a larger share of the kernel time than in healthy recordings of like models.
--
-- Or a kernel of experts that none of them has takes a third of it.
-- Attention is left out: its share follows from the length of the context.
-- @title   dominant kernel
-- @group   kernels
-- @most    notable
-- @unless  fp32_or_wrong_dtype
-- @query   kernels.top category=category
-- @record  Record steps whose phase is known.
-- @source  parts/kernel_share.csv: recordings of Qwen3 from 0.6B to 32B, with and without experts, on H100 and H200
-- @needs   engine_setting, kernel_share, kernel_use, model_size, trace, wording
WITH run_of AS (
    SELECT
        (SELECT ANY_VALUE(device_name ORDER BY rank) FROM trace WHERE rank IS NOT NULL) AS device_name,
        (SELECT dtype FROM engine_setting) AS dtype,
        (SELECT MAX(parameters) / 1e9 FROM model_size) AS parameters,
        (SELECT COUNT(*) FROM kernel_use WHERE category = 'moe') > 0 AS experts
),
spent AS (
    SELECT
        CASE WHEN phase = 'decode' THEN 'decode' ELSE 'prefill' END AS phase,
        category, name, role, kernels, ns
    FROM kernel_use
    WHERE phase IN ('decode', 'mixed', 'prefill')
),
by_name AS (
    SELECT phase, category, name, arg_max(role, ns) AS role, SUM(kernels) AS kernels, SUM(ns) AS ns
    FROM spent
    GROUP BY phase, category, name
),
shared AS (
    SELECT
        phase, category,
        SUM(ns) AS ns,
        100.0 * SUM(ns) / SUM(SUM(ns)) OVER (PARTITION BY phase) AS pct,
        arg_max(name, (ns, name)) AS name,
        arg_max(role, (ns, name)) AS role,
        arg_max(kernels, (ns, name)) AS kernels,
        100.0 * MAX(ns) / SUM(SUM(ns)) OVER (PARTITION BY phase) AS name_pct
    FROM by_name
    GROUP BY phase, category
),
known AS (
    SELECT
        kernel_share.*,
        regexp_matches(COALESCE(run_of.device_name, ''), kernel_share.device)
        AND COALESCE(run_of.dtype = kernel_share.dtype, TRUE)
        AND COALESCE(run_of.parameters BETWEEN kernel_share.parameters / 4 AND kernel_share.parameters * 4, TRUE) AS is_like
    FROM kernel_share
    INNER JOIN run_of USING (experts)
),
-- Fewer than three like recordings do not make a range: then all count.
counted AS (
    SELECT *, (SELECT COUNT(DISTINCT source) FROM known AS one WHERE one.is_like) >= 3 AS has_like FROM known
),
expected AS (
    SELECT
        phase, category, MIN(pct) AS low, MAX(pct) AS high,
        COUNT(DISTINCT source) AS recordings,
        ANY_VALUE(has_like) AS has_like
    FROM counted
    WHERE is_like OR NOT has_like
    GROUP BY phase, category
),
compared AS (
    SELECT
        shared.*, expected.low, expected.high, expected.recordings, expected.has_like,
        shared.pct >= 10 AND shared.pct > CASE WHEN expected.high >= 30 THEN 1.15 ELSE 2 END * expected.high AS is_more,
        shared.category = 'moe' AND shared.name_pct > 33
        AND NOT EXISTS (SELECT 1 FROM kernel_share AS one WHERE one.kernel <> '' AND contains(shared.name, one.kernel)) AS is_new
    FROM shared
    INNER JOIN expected USING (phase, category)
    WHERE shared.category NOT IN ('attention', 'gemm', 'other')
),
found AS (
    SELECT
        COUNT(*) AS kinds,
        COUNT(*) FILTER (is_more OR is_new) AS large,
        arg_max(compared, (ns, category)) FILTER (is_more OR is_new) AS most,
        (SELECT arg_max(shared, (name_pct, name)) FROM shared) AS largest
    FROM compared
)
SELECT
    CASE WHEN found.kinds = 0 THEN NULL ELSE found.large > 0 END AS is_confirmed,
    CASE
        WHEN found.kinds = 0 THEN 'no step with a known phase was recorded'
        ELSE format(
            'every kind of kernel takes a usual share; the largest kernel, {}, has {:.0f}% of the {} steps',
            found.largest.name[:40], found.largest.name_pct, found.largest.phase
        )
    END AS reason,
    format(
        '{} takes {:.0f}% of the kernel time of {} steps', found.most.name[:60], found.most.name_pct,
        CASE found.most.phase WHEN 'prefill' THEN 'prefill or mixed' ELSE found.most.phase END
    ) AS headline,
    [
        format(
            'All kernels of its kind ({}) take {:.0f}%; {:.0f} to {:.0f}% in {} recordings of {}.',
            CASE found.most.category WHEN 'moe' THEN 'experts' ELSE found.most.category END,
            found.most.pct, floor(found.most.low), ceil(found.most.high), found.most.recordings,
            CASE
                WHEN found.most.has_like THEN 'models of this size on this ' || wording.device
                WHEN run_of.experts THEN 'models with experts on other GPUs, or of other sizes'
                ELSE 'dense models on other GPUs, or of other sizes'
            END
        ),
        CASE WHEN found.most.is_new THEN 'None of these recordings has this kernel, so what it should take is not known.' END,
        format('It ran {:,} times{}.', found.most.kernels, COALESCE(' as ' || found.most.role, ''))
    ] AS evidence,
    CASE wording.graphs
        WHEN 'CUDA graphs' THEN format('ncu --set full -k regex:{} -c 3 COMMAND', regexp_extract(found.most.name, '(\w{4,60})', 1))
        WHEN 'HIP graphs' THEN format('rocprof-compute profile -n one -k {} -- COMMAND', regexp_extract(found.most.name, '(\w{4,60})', 1))
        ELSE 'Profile this kernel alone, and compare another implementation of it'
    END AS remedy,
    'What it could take at best: load with --model NAME for the roofline.' AS unknowns,
    found.most.is_more OR found.most.name_pct > 50 AS is_notable,
    found.most.category AS category, found.most.phase AS phase
FROM found
CROSS JOIN run_of
CROSS JOIN wording
