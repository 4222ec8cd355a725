-- One row per run: which algorithm reduced the activations of decode steps.
--
-- Up to 256 KiB, one kernel in which each rank reads from all others (vLLM's custom all-reduce, symmetric
-- memory or a fused one) takes a third of the time of NCCL, between GPUs that a fabric connects.
-- @column item      VARCHAR  What is checked.
-- @column state     VARCHAR  ok, look (may cost time) or unknown (not in the recording).
-- @column evidence  VARCHAR  The numbers; of what is unknown, why.
-- @column advice    VARCHAR  What to try; NULL unless the state is look.
-- @column query     VARCHAR  The query that shows more; NULL if there is none.
-- @key    item state evidence advice query
-- @empty  it always has one row
-- @chart  none
WITH operation AS (
    SELECT
        CASE
            WHEN regexp_matches(kernel.name, 'cross_device_reduce') THEN 'vLLM custom'
            WHEN regexp_matches(kernel.name, 'multimem|symm_mem|one_shot|two_shot') THEN 'symmetric memory'
            WHEN regexp_matches(kernel.name, '(?i)allreduce_fusion|trtllm|moe_finalize') THEN 'FlashInfer'
            WHEN regexp_matches(kernel.name, '(?i)quick_?reduce|allreduce_prototype') THEN 'quick reduce'
            WHEN regexp_matches(kernel.name, '(?i)nccl|rccl') THEN 'NCCL'
            ELSE 'another'
        END AS algorithm,
        collective.bytes
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    INNER JOIN step USING (step_id)
    WHERE collective.op = 'all_reduce' AND collective.group_size > 1 AND step.phase = 'decode'
),
named AS (
    SELECT algorithm, COUNT(*) AS operations, MAX(bytes) AS bytes FROM operation GROUP BY algorithm
),
counted AS (
    SELECT
        string_agg(format('{} {:,}', algorithm, operations), ', ' ORDER BY operations DESC, algorithm) AS algorithms,
        arg_max(algorithm, operations) AS most,
        arg_max(bytes, operations) AS bytes,
        SUM(operations) AS operations,
        (SELECT MAX(tp_size) = 1 FROM layout) AND EXISTS (FROM step WHERE phase = 'decode') AS is_alone
    FROM named
),
judged AS (
    SELECT
        *,
        CASE
            WHEN operations IS NULL AND is_alone THEN 'ok'
            WHEN operations IS NULL THEN 'unknown'
            WHEN most = 'NCCL' AND bytes <= 262144 THEN 'look'
            ELSE 'ok'
        END AS state
    FROM counted
)
SELECT
    'all-reduce algorithm' AS item,
    state,
    CASE
        WHEN state = 'ok' AND operations IS NULL THEN 'one tensor-parallel rank, so decode steps reduce nothing'
        WHEN operations IS NULL THEN 'no all-reduce of a decode step was recorded'
        ELSE concat('in decode steps: ', algorithms, format(' (up to {:.0f} KiB)', bytes / 1024))
    END AS evidence,
    CASE
        WHEN state = 'look'
            THEN 'Omit --disable-custom-all-reduce; if the log rules custom all-reduce out, check the links between the GPUs.'
    END AS advice,
    'comm.summary' AS query
FROM judged
