-- One row per profiled point and phase: where the time of a step goes.
--
-- The parts add up to step_ns, exactly, because each time is rounded to ns first. Computing is divided
-- by what it is for; communication, copies and idle time are what no computation hides. A step lasts
-- from its first kernel to its last one. It is the mean of typical steps of the size that takes most
-- time, and of the ranks that were recorded, under the profiler, which makes steps that wait for the
-- host longer.
-- @param  phase               VARCHAR = NULL  prefill, decode or mixed; all where NULL.
-- @column point               VARCHAR  Point.
-- @column engine              VARCHAR  Engine of the point.
-- @column in_flight           BIGINT   Requests in flight: batch or concurrency; NULL if only a rate limits them.
-- @column prompt_tokens       BIGINT   Tokens of each prompt.
-- @column output_tokens       BIGINT   Tokens that each request generates.
-- @column phase               VARCHAR  Phase of the steps.
-- @column step_ns             BIGINT   Time from the first kernel of a step to its last one, on one rank, ns.
-- @column projections_ns      BIGINT   Products with weights outside of experts, ns (roles qkv_proj, o_proj, gate_up_proj, down_proj and kv_b_proj).
-- @column attention_ns        BIGINT   Attention with its norms, positions and KV cache, ns (roles attention, qk_norm, rope, kv_write and conv).
-- @column experts_ns          BIGINT   Experts with their routing, ns (roles experts_gate_up, experts_down, router, topk, moe_align, moe_sum, shared_gate, dispatch and combine).
-- @column norms_ns            BIGINT   Norms and activation functions, ns.
-- @column head_ns             BIGINT   What a step has outside of its layers, ns (roles input_prep, embed, lm_head, logits_gather and sample).
-- @column other_computing_ns  BIGINT   Computing of all other roles, and of kernels without one, ns.
-- @column transfer_ns         BIGINT   Exposed transfers, ns; NULL if waiting and transfers cannot be separated.
-- @column wait_ns             BIGINT   Exposed waiting for other ranks, ns; NULL if it cannot be separated from transfers.
-- @column unmatched_ns        BIGINT   Exposed communication that was not matched on all ranks, ns.
-- @column copies_ns           BIGINT   Exposed copies, ns.
-- @column idle_host_ns        BIGINT   Idle because the host had launched nothing, ns.
-- @column idle_sync_ns        BIGINT   Idle because the host waited for the GPU, ns.
-- @column idle_launch_ns      BIGINT   Idle between launch and start, ns.
-- @column idle_other_ns       BIGINT   Idle for other reasons, ns.
-- @column other_step_ns       BIGINT   Time in which kernels of another step run, ns.
-- @column size                VARCHAR  Phase and size of the steps: of all sizes, the one that takes most time.
-- @column share_pct           DOUBLE   What steps of this size take of the time of all steps of the phase, percent.
-- @column steps               BIGINT   Recorded steps.
-- @key    point phase step_ns projections_ns attention_ns experts_ns transfer_ns wait_ns idle_host_ns head_ns norms_ns
-- @empty  no profiled point has steps on a GPU; run the plan with record.profile: true, and see the query profiles
-- @chart  parts x=projections_ns,attention_ns,experts_ns,norms_ns,head_ns,other_computing_ns,transfer_ns,wait_ns,unmatched_ns,copies_ns,idle_host_ns,idle_sync_ns,idle_launch_ns,idle_other_ns,other_step_ns y=point total=step_ns panel=phase
-- @title  Where the time of a step goes
WITH cell AS (
    SELECT
        main.point_id, main.phase, part.part, part.role, part.cause,
        CAST(part.ns AS BIGINT) AS ns
    FROM profile_main_stratum AS main
    INNER JOIN profile_step_part AS part
        ON main.point_id = part.point_id AND main.stratum = part.stratum AND part.grain = 'rows'
    WHERE $phase::VARCHAR IS NULL OR main.phase = $phase::VARCHAR
),
named AS (
    SELECT
        point_id, phase, ns,
        CASE
            WHEN part = 'idle' AND cause IN ('host', 'sync', 'launch') THEN 'idle_' || cause
            WHEN part <> 'computing' THEN part
            WHEN role IN ('qkv_proj', 'o_proj', 'gate_up_proj', 'down_proj', 'kv_b_proj') THEN 'projections'
            WHEN role IN ('attention', 'qk_norm', 'rope', 'kv_write', 'conv') THEN 'attention'
            WHEN role IN (
                'experts_gate_up', 'experts_down', 'router', 'topk', 'moe_align', 'moe_sum', 'shared_gate',
                'dispatch', 'combine'
            ) THEN 'experts'
            WHEN role = 'act' OR role LIKE '%\_norm' ESCAPE '\' THEN 'norms'
            WHEN role IN ('input_prep', 'embed', 'lm_head', 'logits_gather', 'sample') THEN 'head'
            ELSE 'other_computing'
        END AS part
    FROM cell
),
divided AS (
    SELECT
        point_id, phase,
        CAST(SUM(ns) AS BIGINT) AS step_ns,
        BOOL_OR(part = 'exposed_unmatched') AND NOT BOOL_OR(part IN ('exposed_transfer', 'exposed_wait')) AS is_unmatched,
        MAP_FROM_ENTRIES(LIST((part, ns))) AS of_part
    FROM (SELECT point_id, phase, part, CAST(SUM(ns) AS BIGINT) AS ns FROM named GROUP BY ALL)
    GROUP BY point_id, phase
)
SELECT
    point_label.title AS point,
    point.engine, point.in_flight, point.prompt_tokens, point.output_tokens, divided.phase,
    divided.step_ns,
    COALESCE(divided.of_part['projections'], 0) AS projections_ns,
    COALESCE(divided.of_part['attention'], 0) AS attention_ns,
    COALESCE(divided.of_part['experts'], 0) AS experts_ns,
    COALESCE(divided.of_part['norms'], 0) AS norms_ns,
    COALESCE(divided.of_part['head'], 0) AS head_ns,
    COALESCE(divided.of_part['other_computing'], 0) AS other_computing_ns,
    CASE WHEN NOT divided.is_unmatched THEN COALESCE(divided.of_part['exposed_transfer'], 0) END AS transfer_ns,
    CASE WHEN NOT divided.is_unmatched THEN COALESCE(divided.of_part['exposed_wait'], 0) END AS wait_ns,
    COALESCE(divided.of_part['exposed_unmatched'], 0) AS unmatched_ns,
    COALESCE(divided.of_part['exposed_copy'], 0) AS copies_ns,
    COALESCE(divided.of_part['idle_host'], 0) AS idle_host_ns,
    COALESCE(divided.of_part['idle_sync'], 0) AS idle_sync_ns,
    COALESCE(divided.of_part['idle_launch'], 0) AS idle_launch_ns,
    COALESCE(divided.of_part['idle'], 0) AS idle_other_ns,
    COALESCE(divided.of_part['other_step'], 0) AS other_step_ns,
    main.stratum AS size,
    main.share_pct, main.steps
FROM divided
INNER JOIN profile_main_stratum AS main USING (point_id, phase)
INNER JOIN point USING (point_id)
INNER JOIN point_label USING (point_id)
ORDER BY divided.phase, divided.point_id
