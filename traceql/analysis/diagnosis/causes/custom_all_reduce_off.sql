-- NCCL reduces small messages of decode steps, for which vLLM's custom all-reduce is faster.
-- @title   custom all-reduce off
-- @group   communication
-- @after   p2p_off
-- @query   comm.summary
-- @record  Record all ranks with traceql capture run, which notes the engine configuration.
-- @source  vLLM's csrc/custom_all_reduce.cuh; two H200 reduce 128 KiB in 4.3 us, with NCCL in 6.0; four in 5.1 and 9.6
-- @needs   engine_setting, log_message, time_unit, timed_collective, trace
WITH loaded AS (
    SELECT COUNT(rank) < MAX(world_size) AS is_partial, MAX(world_size) AS world_size FROM trace
),
logged AS (
    SELECT arg_min(text, line) AS text
    FROM log_message
    WHERE regexp_matches(text, '(?i)custom (allreduce|all-reduce|collectives).*(disabled|not supported|unsupported)')
),
-- The sizes up to which vLLM uses it, by the number of ranks.
small AS (
    SELECT *
    FROM timed_collective
    WHERE
        op = 'all_reduce' AND is_vllm AND phase = 'decode' AND scope = 'tensor'
        AND ranks IN (2, 4, 6, 8)
        AND COALESCE(bytes, 0) <= CASE ranks WHEN 8 THEN 262144 WHEN 6 THEN 524288 ELSE 8388608 END
),
counted AS (
    SELECT
        COUNT(*) AS operations,
        COUNT(*) FILTER (algorithm = 'nccl') AS by_nccl,
        COUNT(*) FILTER (algorithm = 'nccl' AND custom_ns IS NOT NULL) AS compared,
        MODE(algorithm) AS algorithm,
        MODE(bytes) FILTER (algorithm = 'nccl') AS bytes,
        MEDIAN(transfer_ns) FILTER (algorithm = 'nccl') AS ns,
        MEDIAN(custom_ns) FILTER (algorithm = 'nccl') AS custom_ns,
        MEDIAN(transfer_ns) FILTER (algorithm <> 'nccl') AS other_ns,
        COUNT(DISTINCT number) FILTER (algorithm = 'nccl') AS steps,
        ANY_VALUE(link) AS link,
        MAX(ranks) AS ranks,
        arg_max(rank, transfer_ns) FILTER (algorithm = 'nccl') AS rank,
        arg_max(ts, transfer_ns) FILTER (algorithm = 'nccl') AS ts,
        MAX(transfer_ns) FILTER (algorithm = 'nccl') AS dur
    FROM small
),
-- Where NCCL is far slower than elsewhere, what it takes longer is another cause's.
excess AS (
    SELECT
        kernel_id,
        exposed_ns * GREATEST(
            0, CASE WHEN transfer_ns > 1.67 * expected_ns THEN expected_ns ELSE transfer_ns END - custom_ns
        ) / NULLIF(transfer_ns, 0) AS ns
    FROM small
    WHERE algorithm = 'nccl'
),
share AS (
    SELECT every.rank, every.step_id, every.role, SUM(excess.ns) / NULLIF(SUM(every.exposed_ns), 0) AS share
    FROM timed_collective AS every
    LEFT JOIN excess ON every.kernel_id = excess.kernel_id
    GROUP BY every.rank, every.step_id, every.role
),
claimed AS (
    SELECT list({'unit': unit, 'ns': CAST(ns * share.share AS BIGINT)} ORDER BY unit) AS claims
    FROM time_unit
    INNER JOIN share
        ON time_unit.rank = share.rank
        AND time_unit.step_id = share.step_id
        AND time_unit.role IS NOT DISTINCT FROM share.role
    WHERE time_unit.part = 'transfer' AND share.share > 0
),
judged AS (
    SELECT
        *,
        counted.by_nccl > 0.5 * counted.operations AS is_nccl,
        regexp_matches(counted.link, 'NVLink|Infinity Fabric') AS is_direct,
        setting.disables_custom_all_reduce AS is_disabled,
        logged.text AS why
    FROM counted
    CROSS JOIN loaded
    CROSS JOIN engine_setting AS setting
    CROSS JOIN logged
)
SELECT
    CASE
        WHEN world_size = 1 THEN FALSE
        WHEN operations = 0 AND is_partial THEN NULL
        WHEN operations = 0 OR NOT is_nccl THEN FALSE
        WHEN is_direct IS NULL THEN NULL
        WHEN NOT is_direct AND ranks > 2 THEN FALSE
        WHEN compared > 0 AND custom_ns >= ns THEN FALSE
        WHEN is_disabled THEN TRUE
        WHEN is_disabled IS NULL AND compared > 0 THEN TRUE
    END AS is_confirmed,
    CASE
        WHEN world_size = 1 THEN 'the run has one rank'
        WHEN operations = 0 AND is_partial THEN 'no all-reduce of a decode step was matched, because ranks are missing'
        WHEN operations = 0 THEN 'no decode step of vLLM reduces a message of up to 8 MiB between 2, 4, 6 or 8 ranks'
        WHEN NOT is_nccl THEN format(
            '{:,} of {:,} all-reduces of decode steps are not NCCL''s ({}, {:.1f} us)', operations - by_nccl, operations, algorithm, other_ns / 1e3
        )
        WHEN is_direct IS NULL THEN 'what connects the ranks is unknown; traceql capture run notes their topology'
        WHEN NOT is_direct AND ranks > 2 THEN format('vLLM has none for {} ranks on {}', ranks, link)
        WHEN compared > 0 AND custom_ns >= ns THEN 'NCCL is as fast here as the custom all-reduce elsewhere'
        WHEN is_disabled IS NOT NULL AND NOT is_disabled THEN concat(
            'NCCL reduces although run.json has disable_custom_all_reduce false', COALESCE('; the log says: ' || why, '; the log of vLLM says why')
        )
        WHEN is_disabled IS NULL AND compared = 0 THEN 'neither run.json nor the size of the messages is known'
    END AS reason,
    CASE
        WHEN compared > 0 THEN format(
            'NCCL reduces {:.0f} KiB in {:.1f} us; vLLM''s own all-reduce takes {:.1f}', bytes / 1024, ns / 1e3, custom_ns / 1e3
        )
        ELSE format('NCCL reduces the activations of {} decode steps: custom all-reduce is off', steps)
    END AS headline,
    [
        format(
            'NCCL carries out {:,} all-reduces of {} decode steps, {:.0f} of them a step and rank.', by_nccl, steps,
            by_nccl / (steps * GREATEST(1, ranks))
        ),
        CASE WHEN is_disabled THEN 'In run.json, disable_custom_all_reduce is true.' END,
        CASE WHEN compared > 0 THEN format(
            'Over {} between {} ranks, the custom all-reduce of such a message took {:.1f} us elsewhere.', link, ranks, custom_ns / 1e3
        ) END
    ] AS evidence,
    CASE
        WHEN is_disabled THEN 'vllm serve ... without --disable-custom-all-reduce'
        ELSE 'vllm serve ... without --disable-custom-all-reduce; if it is not set: grep -i "custom allreduce" LOG says why vLLM turned it off'
    END AS remedy,
    CASE
        WHEN compared = 0 THEN 'What the custom all-reduce takes on these devices: measure it (traceql experiment peaks).'
        WHEN is_disabled IS NULL THEN 'Why it is off: record with traceql capture run.'
    END AS unknowns,
    claimed.claims, steps AS samples, 'decode' AS phase, rank, ts, dur
FROM judged
CROSS JOIN claimed
