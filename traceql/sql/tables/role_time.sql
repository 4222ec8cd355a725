-- One row per row of cost and kind of ceiling: how long its kernels took, and how long they had to.
--
-- Time in which collectives waited for another rank is left out, because no kernel is to blame for it.
-- @scope  run
-- @needs  collective, fixed_cost, kernel, role_floor, trace
-- @column rank        BIGINT   Rank.
-- @column step_id     BIGINT   Step (step.step_id).
-- @column layer       BIGINT   Model layer; NULL outside layers.
-- @column role        VARCHAR  Part of the model.
-- @column kind        VARCHAR  data sheet or measured: whose ceilings (rank_peak.kind).
-- @column work_ns     BIGINT   Sum of the durations of its kernels without known wait time, ns.
-- @column floor_ns    DOUBLE   Least time for its work (role_floor.floor_ns); of roles that only communicate, that of the link. ns; NULL if unknown.
-- @column bound       VARCHAR  What sets floor_ns: compute, memory, link, or kernels if the work is next to nothing; NULL if unknown.
-- @column padding_ns  DOUBLE   Least time for the padded rows in addition, ns; NULL if floor_ns is NULL.
-- @column small_ns    DOUBLE   What its kernels take beyond both even if they have nothing to do, and of communication the latency of its operations (fixed_cost), ns; NULL if floor_ns is NULL.
-- @column lost_ns     DOUBLE   The rest: time below the roofline, ns; negative if it was faster than the ceiling. NULL if floor_ns is NULL.
-- @column flops       BIGINT   Useful FLOPs (cost.flops); NULL if floor_ns is.
-- @column bytes       BIGINT   Compulsory bytes (cost.hbm_bytes), or what the rank sends (cost.wire_bytes) if link is the bound; NULL if floor_ns is.
-- @column missing     VARCHAR  What is missing for floor_ns; NULL if nothing is.
WITH latency AS (
    SELECT trace.rank, fixed_cost.cost AS op, fixed_cost.ranks, MIN(fixed_cost.ns) AS ns
    FROM trace
    INNER JOIN fixed_cost ON regexp_matches(trace.device_name, fixed_cost.device)
    GROUP BY trace.rank, fixed_cost.cost, fixed_cost.ranks
),
communicated AS (
    SELECT
        kernel.step_id, kernel.layer, kernel.role,
        SUM(collective.wait_ns) AS wait_ns,
        SUM(latency.ns ORDER BY latency.ns) AS latency_ns
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    LEFT JOIN latency
        ON collective.rank = latency.rank AND collective.op = latency.op AND collective.group_size = latency.ranks
    GROUP BY kernel.step_id, kernel.layer, kernel.role
),
known AS (
    SELECT
        role_floor.*,
        role_floor.dur_ns - COALESCE(communicated.wait_ns, 0) AS work_ns,
        communicated.latency_ns,
        CASE
            WHEN role_floor.floor_ns = 0 AND role_floor.wire_bytes IS NOT NULL THEN role_floor.link_ns
            ELSE role_floor.floor_ns
        END AS least_ns,
        CASE
            WHEN role_floor.bound IS NOT NULL THEN role_floor.bound
            WHEN role_floor.wire_bytes IS NOT NULL THEN 'link'
            WHEN role_floor.floor_ns = 0 THEN 'kernels'
        END AS bound_by
    FROM role_floor
    LEFT JOIN communicated
        ON role_floor.step_id = communicated.step_id
        AND role_floor.role = communicated.role
        AND role_floor.layer IS NOT DISTINCT FROM communicated.layer
),
divided AS (
    SELECT
        *,
        CASE WHEN least_ns IS NOT NULL THEN GREATEST(COALESCE(executed_ns - floor_ns, 0), 0) END AS padding_ns
    FROM known
),
bounded AS (
    SELECT
        *,
        CASE
            WHEN least_ns IS NOT NULL
                THEN GREATEST(
                    LEAST(COALESCE(CASE WHEN bound_by = 'link' THEN latency_ns ELSE small_ns END, 0), work_ns)
                    - least_ns - padding_ns,
                    0
                )
        END AS fixed_ns
    FROM divided
)
SELECT
    rank, step_id, layer, role, kind,
    CAST(work_ns AS BIGINT) AS work_ns,
    least_ns AS floor_ns,
    bound_by AS bound,
    padding_ns,
    fixed_ns AS small_ns,
    work_ns - least_ns - padding_ns - fixed_ns AS lost_ns,
    CASE WHEN least_ns IS NOT NULL THEN flops END AS flops,
    CASE WHEN least_ns IS NOT NULL THEN CASE WHEN bound_by = 'link' THEN wire_bytes ELSE hbm_bytes END END AS bytes,
    missing
FROM bounded
ORDER BY rank, step_id, layer, role, kind
