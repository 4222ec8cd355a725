-- One row per run: which kernels computed attention.
--
-- On NVIDIA GPUs since Ampere, Triton's attention is flagged where FlashAttention or FlashInfer
-- can run. Backends are identified by the names of their kernels; others are unknown.
-- @column item      VARCHAR  What is checked.
-- @column state     VARCHAR  ok, look (may cost time) or unknown (not in the recording).
-- @column evidence  VARCHAR  The numbers; of what is unknown, why.
-- @column advice    VARCHAR  What to try; NULL unless the state is look.
-- @column query     VARCHAR  The query that shows more; NULL if there is none.
-- @key    item state evidence advice query
-- @empty  it always has one row
-- @chart  none
WITH kernel_time AS (
    SELECT
        CASE
            WHEN regexp_matches(name, 'ck_tile') THEN 'Composable Kernel'
            WHEN regexp_matches(name, 'FlashAttnFwdSm90|FlashAttnFwdCombine.*Sm90') THEN 'FlashAttention 3'
            WHEN regexp_matches(name, 'flash_fwd|FlashAttn|fmha_v2') THEN 'FlashAttention'
            WHEN regexp_matches(name, 'fmhaSm100|flashinfer|PagedKVCacheKernel|PagedKVCacheDispatched') THEN 'FlashInfer or TensorRT-LLM'
            WHEN regexp_matches(name, 'unified_attention|_fwd_kernel|_attn_fwd|kernel_paged_attention') THEN 'Triton'
            WHEN regexp_matches(name, 'FlashMLA|flash_mla') THEN 'FlashMLA'
        END AS backend,
        name,
        SUM(dur) AS ns
    FROM kernel
    WHERE category = 'attention'
    GROUP BY ALL
),
counted AS (
    SELECT
        arg_max(backend, ns) FILTER (backend IS NOT NULL) AS backend,
        arg_max(name, ns) AS name,
        SUM(ns) AS ns,
        (SELECT BOOL_OR(regexp_matches(device_name, 'A100|A800|A30|H100|H200|H800|H20|B200|B300')) FROM trace) AS has_others
    FROM kernel_time
),
judged AS (
    SELECT
        *,
        CASE
            WHEN backend IS NULL THEN 'unknown'
            WHEN backend = 'Triton' AND has_others THEN 'look'
            ELSE 'ok'
        END AS state
    FROM counted
)
SELECT
    'attention backend' AS item,
    state,
    CASE
        WHEN ns IS NULL THEN 'no attention kernel was recorded'
        WHEN backend IS NULL THEN format('the backend of kernel {} is not known', name[:80])
        ELSE format('{} takes most of the {:.1f} ms of attention on all ranks', backend, ns / 1e6)
    END AS evidence,
    CASE
        WHEN state = 'look'
            THEN 'Compare it with --attention-backend FLASH_ATTN or FLASHINFER (traceql diff), and keep the faster one.'
    END AS advice,
    'kernels.top' AS query
FROM judged
