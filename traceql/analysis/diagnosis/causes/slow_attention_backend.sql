-- Attention runs in Triton on a GPU for which vLLM has faster kernels.
-- @title   slow attention backend
-- @group   kernels
-- @most    notable
-- @query   kernels.top category='attention'
-- @record  Record with traceql capture run, which keeps vLLM's log: it names the backends that were possible.
-- @source  vLLM's order of backends: FlashAttention on Hopper, FlashInfer on Blackwell, Triton where neither fits
-- @needs   engine_setting, kernel_use, log_message, trace
WITH used AS (
    SELECT
        CASE
            WHEN regexp_matches(name, 'ck_tile|aiter') THEN 'Composable Kernel'
            WHEN regexp_matches(name, 'FlashAttnFwdSm90|FlashAttnFwdCombine.*Sm90') THEN 'FlashAttention 3'
            WHEN regexp_matches(name, 'FlashMLA|flash_mla') THEN 'FlashMLA'
            WHEN regexp_matches(name, 'flash_fwd|FlashAttn|fmha_v2') THEN 'FlashAttention'
            WHEN regexp_matches(name, 'fmhaSm100|flashinfer|PagedKVCacheKernel|PagedKVCacheDispatched') THEN 'FlashInfer or TensorRT-LLM'
            WHEN regexp_matches(name, 'cudnn') THEN 'cuDNN'
            WHEN regexp_matches(name, 'unified_attention|kernel_paged_attention') THEN 'Triton'
        END AS backend,
        name,
        SUM(ns) AS ns,
        SUM(kernels) AS kernels
    FROM kernel_use
    WHERE category = 'attention'
    GROUP BY ALL
),
most AS (
    SELECT
        SUM(ns) AS ns,
        arg_max(backend, ns) FILTER (backend IS NOT NULL) AS backend,
        arg_max(name, ns) AS name,
        SUM(ns) FILTER (backend = 'Triton') AS triton_ns,
        SUM(kernels) FILTER (backend = 'Triton') AS kernels,
        (SELECT SUM(ns) FROM kernel_use) AS all_ns,
        (SELECT ANY_VALUE(device_name ORDER BY rank) FROM trace WHERE rank IS NOT NULL) AS device_name
    FROM used
),
-- Using TRITON_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'TRITON_ATTN'].
said AS (
    SELECT
        ANY_VALUE(regexp_extract(text, 'Using (\w+) attention backend', 1)) AS chosen,
        regexp_extract_all(ANY_VALUE(regexp_extract(text, 'potential backends:(.*)', 1)), '\w+') AS possible,
        COUNT(*) AS lines
    FROM log_message
    WHERE text LIKE '%attention backend%'
),
judged AS (
    SELECT
        most.*, said.*,
        most.triton_ns > 0.5 * most.ns AS is_triton,
        regexp_matches(most.device_name, 'H100|H200|H800|H20\b|GH200|B200|B300|GB200') AS has_faster,
        list_filter(
            ['FLASH_ATTN', 'FLASHINFER', 'CUTLASS_MLA', 'FLASHINFER_MLA', 'FLASHMLA', 'FLASH_ATTN_MLA'],
            LAMBDA name: list_contains(COALESCE(said.possible, []), name)
        ) AS faster,
        upper(COALESCE(setting.config ->> '$.attention_config.backend', '')) LIKE '%TRITON%' AS is_asked
    FROM most
    CROSS JOIN said
    CROSS JOIN engine_setting AS setting
)
SELECT
    CASE
        WHEN judged.ns IS NULL THEN NULL
        WHEN judged.is_triton IS NOT TRUE THEN CASE WHEN judged.backend IS NOT NULL THEN FALSE END
        WHEN len(judged.faster) > 0 THEN TRUE
        WHEN len(judged.possible) > 0 THEN FALSE
        WHEN judged.has_faster AND judged.is_asked THEN TRUE
        WHEN judged.has_faster IS FALSE THEN FALSE
    END AS is_confirmed,
    CASE
        WHEN judged.ns IS NULL THEN 'no attention kernel was recorded'
        WHEN judged.backend IS NULL THEN format('the backend of kernel {} is not known', judged.name[:60])
        WHEN judged.is_triton IS NOT TRUE THEN format('attention runs in {}', judged.backend)
        WHEN len(judged.faster) = 0 AND len(judged.possible) > 0
            THEN format('attention runs in Triton, and vLLM found no faster backend possible: {}', array_to_string(judged.possible, ', '))
        WHEN judged.has_faster IS FALSE THEN format('attention runs in Triton, which is usual on {}', judged.device_name)
        ELSE 'attention runs in Triton; only vLLM''s log says whether a faster backend was possible: record with traceql capture run'
    END AS reason,
    format('Attention runs in Triton, {:.0f}% of the kernel time', 100 * judged.triton_ns / NULLIF(judged.all_ns, 0)) AS headline,
    [
        format('{:,} kernels of Triton, such as {}, take {:.1f} ms on all ranks.', judged.kernels, judged.name[:60], judged.triton_ns / 1e6),
        CASE
            WHEN len(judged.faster) > 0 THEN format('vLLM''s log also names {} as possible.', array_to_string(judged.faster, ', '))
            WHEN judged.is_asked THEN 'run.json asks for it (attention_config.backend).'
        END
    ] AS evidence,
    format('--attention-backend {}', COALESCE(judged.faster[1], CASE WHEN judged.device_name LIKE '%B_00%' THEN 'FLASHINFER' ELSE 'FLASH_ATTN' END)) AS remedy,
    'How long attention takes in the other backend: record it too, and compare with traceql diff.' AS unknowns,
    judged.triton_ns > 0.1 * judged.all_ns AS is_notable,
    judged.kernels AS samples,
    CASE
        WHEN judged.is_triton IS NOT TRUE AND judged.backend IN ('FlashAttention 3', 'FlashMLA', 'FlashInfer or TensorRT-LLM')
            THEN format('attention ({}, {:.0f}% of the kernel time)', judged.backend, 100 * judged.ns / NULLIF(judged.all_ns, 0))
    END AS fine
FROM judged
