-- Decode reads all weights for so few tokens that more of them would be nearly free.
-- @title      small batch
-- @notable    2
-- @severe     1000
-- @unit       times the tokens per second
-- @threshold  growth = 8  How many times the requests the batch is imagined to have.
-- @evidence   roofline.points phase=phase
-- @advice     Let more requests run at a time: more of them from the clients, or a larger max_num_seqs if they queue.
-- @source     own: floors at the peaks of the data sheet (docs/definitions.md, Speed of light)
-- @needs      cost, finding_rule, model_size, peak, rank_peak, step, trace
WITH grown AS (
    SELECT
        cost.step_id,
        step.generation_tokens AS tokens,
        rule.thresholds['growth'] AS growth,
        cost.flops / (peak.tflops * 1000) AS compute_ns,
        cost.hbm_bytes / rank_peak.hbm_gbps AS memory_ns,
        -- More tokens choose more of the experts; weights of other parts are read once in any case.
        (
            CASE
                WHEN cost.formula = 'experts'
                    THEN cost.weight_bytes
                    * (1 - pow(1 - model_size.top_k / model_size.experts, step.generation_tokens * rule.thresholds['growth']))
                    / (1 - pow(1 - model_size.top_k / model_size.experts, step.generation_tokens))
                ELSE cost.weight_bytes
            END
            + cost.kv_bytes * rule.thresholds['growth']
        ) / rank_peak.hbm_gbps AS grown_memory_ns
    FROM cost
    INNER JOIN step USING (step_id)
    INNER JOIN trace ON cost.rank = trace.rank
    INNER JOIN rank_peak ON cost.rank = rank_peak.rank AND rank_peak.kind = 'data sheet'
    LEFT JOIN peak
        ON trace.device_name = peak.device_name AND peak.kind = 'data sheet' AND cost.dtype = peak.dtype
    CROSS JOIN (SELECT thresholds FROM finding_rule WHERE finding = 'small batch') AS rule
    LEFT JOIN model_size ON TRUE
    WHERE step.phase = 'decode' AND step.generation_tokens > 0 AND cost.formula IN ('product', 'experts', 'attention', 'latent_attention')
),
-- The cost of all parts must be known: attention grows with the batch as weights do not.
stepped AS (
    SELECT
        step_id,
        ANY_VALUE(tokens) AS tokens,
        ANY_VALUE(growth) AS growth,
        SUM(compute_ns ORDER BY compute_ns) AS compute_ns,
        SUM(GREATEST(compute_ns, memory_ns) ORDER BY GREATEST(compute_ns, memory_ns)) AS floor_ns,
        SUM(GREATEST(growth * compute_ns, grown_memory_ns) ORDER BY GREATEST(growth * compute_ns, grown_memory_ns)) AS grown_ns
    FROM grown
    GROUP BY step_id
    HAVING COUNT(compute_ns) = COUNT(*) AND COUNT(grown_memory_ns) = COUNT(*)
),
summed AS (
    SELECT
        AVG(stepped.tokens) AS tokens,
        ANY_VALUE(stepped.growth) AS growth,
        SUM(stepped.grown_ns ORDER BY stepped.grown_ns) / SUM(stepped.floor_ns ORDER BY stepped.floor_ns) AS longer,
        floor(100 - 100 * SUM(stepped.compute_ns ORDER BY stepped.compute_ns) / SUM(step.gpu_dur)) AS unused_pct,
        COUNT(*) AS steps
    FROM stepped
    INNER JOIN step USING (step_id)
)
SELECT
    growth / longer AS value,
    NULL::BIGINT AS cost_ns,
    format(
        'Decode steps have {:.0f} tokens and leave {:.0f}% of the matrix units idle: {:.0f} tokens would need {:.0f}% more time '
        || 'at the peaks, for {:.0f} times the tokens, each with as long a context.',
        tokens, unused_pct, tokens * growth, 100 * (longer - 1), growth
    ) AS finding,
    'decode' AS phase
FROM summed
WHERE steps > 0
