-- One row: what is lost to hosts, causes aside, in steps that lose more than a tenth of their work to them.
-- @kind   scratch
-- @scope  run
-- @needs  host_bound_step, lost_pct, time_scale, time_unit
-- @column steps           BIGINT   Steps that lose so much, counted on one rank.
-- @column are_enough      BOOLEAN  Whether they are enough to judge by: at least three, or two if no more steps count.
-- @column decode_steps    BIGINT   Those of them that only generate tokens.
-- @column launched_steps  BIGINT   Those of these that replay no graph.
-- @column all_steps       BIGINT   Steps that count.
-- @column busy_ns         DOUBLE   Work of the device in steps that lose so much, ns; NULL without them.
-- @column lost_ns         DOUBLE   What such a step loses on a device, with the profiler, ns; 0 without them.
-- @column pct             DOUBLE   What they lose of all steps, without the profiler (with it, if only that is known), percent.
-- @column claims          STRUCT(unit BIGINT, ns BIGINT)[]  As causes claim it.
-- @column rank            BIGINT   Rank with the longest such time.
-- @column ts              BIGINT   Its start, ns since the run's first event.
-- @column dur             BIGINT   Its duration, ns.
WITH counted AS (
    SELECT
        COUNT(DISTINCT number) FILTER (is_bound) AS steps,
        COUNT(DISTINCT number) FILTER (is_bound AND phase = 'decode') AS decode_steps,
        COUNT(DISTINCT number) FILTER (is_bound AND phase = 'decode' AND graph_mode = 'none') AS launched_steps,
        COUNT(DISTINCT number) AS all_steps,
        AVG(busy_ns) FILTER (is_bound) AS busy_ns
    FROM host_bound_step
),
claimed AS (
    SELECT
        list({'unit': time_unit.unit, 'ns': time_unit.ns} ORDER BY time_unit.unit) AS claims,
        COALESCE(SUM(time_unit.ns), 0) AS ns,
        arg_max(time_unit.rank, time_unit.longest_ns) AS rank,
        arg_max(time_unit.longest_ts, time_unit.longest_ns) AS ts,
        MAX(time_unit.longest_ns) AS dur
    FROM time_unit
    INNER JOIN host_bound_step ON time_unit.root_step_id = host_bound_step.step_id
    WHERE host_bound_step.is_bound AND time_unit.part = 'lost' AND time_unit.cause IN ('host', 'sync')
)
SELECT
    counted.steps,
    counted.steps >= GREATEST(2, LEAST(3, counted.all_steps)) AS are_enough,
    counted.decode_steps, counted.launched_steps, counted.all_steps, counted.busy_ns,
    claimed.ns / (GREATEST(1, counted.steps) * time_scale.devices) AS lost_ns,
    lost_pct(claimed.ns, time_scale) AS pct,
    claimed.claims, claimed.rank, claimed.ts, claimed.dur
FROM counted
CROSS JOIN claimed
CROSS JOIN time_scale
