-- One row per profiled point of a model with experts and phase: the exchange of tokens against the experts' work in a step.
--
-- Use it to see from which batch on expert parallelism pays. The form is how tokens reach the experts:
-- dispatch/combine if operations with these roles carry them, or all-reduce if every rank has all tokens
-- and the partial results are summed, as without expert parallelism (in dense layers of the model, too). Only what no computation hides
-- counts as exchange. It works for one GPU, too, which exchanges nothing.
--
-- experts + routing + transfer + wait + unmatched = moe, and moe + rest = step, exactly, because each time
-- is rounded to ns first. A step is the mean of typical steps of the size that takes most time, and of
-- the ranks that were recorded, under the profiler.
-- @param  phase          VARCHAR = NULL  prefill, decode or mixed; all where NULL.
-- @column point          VARCHAR  Point.
-- @column engine         VARCHAR  Engine of the point.
-- @column in_flight      BIGINT   Requests in flight: batch or concurrency; NULL if only a rate limits them.
-- @column prompt_tokens  BIGINT   Tokens of each prompt.
-- @column output_tokens  BIGINT   Tokens that each request generates.
-- @column phase          VARCHAR  Phase of the steps.
-- @column form           VARCHAR  dispatch/combine or all-reduce; NULL if nothing is exchanged.
-- @column step_ns        BIGINT   Time from the first kernel of a step to its last one, on one rank, ns.
-- @column experts_ns     BIGINT   Matrix products of the experts, ns (roles experts_gate_up and experts_down).
-- @column routing_ns     BIGINT   Choosing experts, sorting tokens, summing results, ns (roles router, topk, moe_align and moe_sum).
-- @column transfer_ns    BIGINT   Exposed transfer of tokens or partial results, and copies for it, ns; NULL if waiting and transfers cannot be separated.
-- @column wait_ns        BIGINT   Exposed waiting for the late rank in these operations, ns; NULL if it cannot be separated from transfers.
-- @column unmatched_ns   BIGINT   Exposed time of such operations that were not matched on all ranks, ns.
-- @column moe_ns         BIGINT   All of these, ns.
-- @column rest_ns        BIGINT   Rest of the step, ns: step_ns - moe_ns, such as attention, other products and idle time.
-- @column experts_pct    DOUBLE   experts_ns and routing_ns in percent of the step.
-- @column exchange_pct   DOUBLE   transfer_ns, wait_ns and unmatched_ns in percent of the step.
-- @column exchange_ratio  DOUBLE  Exchange divided by the experts' work, routing included: 1 if it takes as long.
-- @column size          VARCHAR  Phase and size of the steps: of all sizes, the one that takes most time.
-- @column share_pct     DOUBLE   What steps of this size take of the time of all steps of the phase, percent.
-- @column tokens         DOUBLE   Mean number of tokens of a step; NULL if unknown.
-- @column steps          BIGINT   Recorded steps.
-- @key    point phase form experts_ns routing_ns transfer_ns wait_ns exchange_ratio experts_pct exchange_pct step_ns
-- @empty  no profiled point has expert kernels on a GPU: the model is dense, its layers were not recognized, or nothing could be profiled; see the query profiles
-- @chart  parts x=experts_ns,routing_ns,transfer_ns,wait_ns,unmatched_ns y=point total=moe_ns panel=phase
-- @title  Experts, and the exchange that they need, in a step
WITH cell AS (
    SELECT
        main.point_id, main.phase, part.part, part.role,
        CAST(part.ns AS BIGINT) AS ns
    FROM profile_main_stratum AS main
    INNER JOIN profile_step_part AS part
        ON main.point_id = part.point_id AND main.stratum = part.stratum AND part.grain = 'rows'
    WHERE $phase::VARCHAR IS NULL OR main.phase = $phase::VARCHAR
),
-- If tokens are dispatched, an all-reduce does not belong to the experts.
form AS (
    SELECT
        point_id,
        BOOL_OR(role IN ('dispatch', 'combine')) AS dispatches
    FROM cell
    GROUP BY point_id
    HAVING BOOL_OR(role IN ('experts_gate_up', 'experts_down'))
),
named AS (
    SELECT
        cell.point_id, cell.phase, form.dispatches, cell.ns,
        cell.part AS kind,
        CASE
            WHEN cell.role IN ('experts_gate_up', 'experts_down') AND cell.part = 'computing' THEN 'experts'
            WHEN cell.role IN ('router', 'topk', 'moe_align', 'moe_sum') AND cell.part = 'computing' THEN 'routing'
            WHEN cell.role NOT IN ('dispatch', 'combine') AND (form.dispatches OR cell.role <> 'mlp_allreduce') THEN 'rest'
            WHEN cell.part = 'exposed_wait' THEN 'wait'
            WHEN cell.part = 'exposed_unmatched' THEN 'unmatched'
            -- Kernels of libraries that exchange tokens may count as computing or copies.
            WHEN cell.part IN ('exposed_transfer', 'exposed_copy') OR cell.role IN ('dispatch', 'combine') THEN 'transfer'
            ELSE 'rest'
        END AS part
    FROM cell
    INNER JOIN form USING (point_id)
),
summed AS (
    SELECT
        point_id, phase,
        ANY_VALUE(dispatches) AS dispatches,
        CAST(SUM(ns) AS BIGINT) AS step_ns,
        CAST(COALESCE(SUM(ns) FILTER (part = 'experts'), 0) AS BIGINT) AS experts_ns,
        CAST(COALESCE(SUM(ns) FILTER (part = 'routing'), 0) AS BIGINT) AS routing_ns,
        CAST(COALESCE(SUM(ns) FILTER (part = 'transfer'), 0) AS BIGINT) AS transfer_ns,
        CAST(COALESCE(SUM(ns) FILTER (part = 'wait'), 0) AS BIGINT) AS wait_ns,
        CAST(COALESCE(SUM(ns) FILTER (part = 'unmatched'), 0) AS BIGINT) AS unmatched_ns,
        CAST(COALESCE(SUM(ns) FILTER (part NOT IN ('experts', 'routing', 'transfer', 'wait', 'unmatched')), 0) AS BIGINT) AS rest_ns,
        BOOL_OR(part = 'unmatched')
        AND NOT BOOL_OR(part IN ('transfer', 'wait') AND kind IN ('exposed_transfer', 'exposed_wait')) AS is_unmatched,
        BOOL_OR(part IN ('transfer', 'wait', 'unmatched')) AS exchanges
    FROM named
    GROUP BY point_id, phase
)
SELECT
    point_label.title AS point,
    point.engine, point.in_flight, point.prompt_tokens, point.output_tokens, summed.phase,
    CASE WHEN summed.exchanges THEN CASE WHEN summed.dispatches THEN 'dispatch/combine' ELSE 'all-reduce' END END AS form,
    summed.step_ns, summed.experts_ns, summed.routing_ns,
    CASE WHEN NOT summed.is_unmatched THEN summed.transfer_ns END AS transfer_ns,
    CASE WHEN NOT summed.is_unmatched THEN summed.wait_ns END AS wait_ns,
    summed.unmatched_ns,
    summed.step_ns - summed.rest_ns AS moe_ns,
    summed.rest_ns,
    100.0 * (summed.experts_ns + summed.routing_ns) / NULLIF(summed.step_ns, 0) AS experts_pct,
    100.0 * (summed.transfer_ns + summed.wait_ns + summed.unmatched_ns) / NULLIF(summed.step_ns, 0) AS exchange_pct,
    (summed.transfer_ns + summed.wait_ns + summed.unmatched_ns)
    / NULLIF(summed.experts_ns + summed.routing_ns, 0) AS exchange_ratio,
    main.stratum AS size,
    main.share_pct, main.tokens, main.steps
FROM summed
INNER JOIN profile_main_stratum AS main USING (point_id, phase)
INNER JOIN point USING (point_id)
INNER JOIN point_label USING (point_id)
ORDER BY summed.phase, summed.point_id
