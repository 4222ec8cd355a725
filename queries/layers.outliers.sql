-- One row per layer of a forward pass that took much longer than the other layers of the same pass.
--
-- Use it to find slow layers without a baseline. score is a robust number of standard deviations:
-- (dur - median) / (1.4826 x MAD) over the layers of the pass, where MAD is the median absolute
-- deviation but at least 1% of the median. For a normal distribution, 1.4826 x MAD estimates the
-- standard deviation (Rousseeuw and Croux 1993).
-- @param  score       DOUBLE  = 5     Lowest score to report.
-- @param  limit       INTEGER = 50    Maximum number of rows.
-- @column rank        BIGINT   Rank.
-- @column step_id     BIGINT   Step.
-- @column number      BIGINT   Position of the step in its rank, from 0.
-- @column phase       VARCHAR  Phase of the step: prefill, decode, mixed or idle.
-- @column layer       BIGINT   Model layer, from 0.
-- @column dur         BIGINT   Duration of the layer, ns.
-- @column median_ns   DOUBLE   Median duration of the layers of its pass, ns.
-- @column excess_ns   DOUBLE   dur minus the median, ns.
-- @column score       DOUBLE   Robust number of standard deviations above the median.
-- @column slowest_role VARCHAR Role that is furthest above its own median in the pass; idle if that is the time between kernels, waiting if its collectives waited for a late rank.
-- @key    rank step_id phase layer dur excess_ns slowest_role median_ns score
-- @empty  no layer stands out, or no layers were recognized (traceql check says which)
-- @chart  point x=number y=layer color=slowest_role size=excess_ns
-- @title  In which steps a layer was much slower than the others
WITH centre AS (
    SELECT rank, step_id, pass, median(dur) AS median_ns FROM layer GROUP BY rank, step_id, pass
),
spread AS (
    SELECT
        layer.rank, layer.step_id, layer.pass,
        ANY_VALUE(centre.median_ns) AS median_ns,
        GREATEST(
            median(ABS(layer.dur - centre.median_ns)), 0.01 * ANY_VALUE(centre.median_ns)
        ) AS mad_ns
    FROM layer
    INNER JOIN centre
        ON layer.rank = centre.rank AND layer.step_id = centre.step_id
        AND layer.pass IS NOT DISTINCT FROM centre.pass
    GROUP BY layer.rank, layer.step_id, layer.pass
),
outlier AS (
    SELECT
        layer.rank, layer.step_id, layer.pass, layer.layer, layer.dur, spread.median_ns,
        layer.dur - spread.median_ns AS excess_ns,
        (layer.dur - spread.median_ns) / (1.4826 * spread.mad_ns) AS score
    FROM layer
    INNER JOIN spread
        ON layer.rank = spread.rank AND layer.step_id = spread.step_id
        AND layer.pass IS NOT DISTINCT FROM spread.pass
    WHERE
        spread.mad_ns > 0
        AND layer.dur - spread.median_ns >= $score::DOUBLE * 1.4826 * spread.mad_ns
    ORDER BY excess_ns DESC
    LIMIT $limit::INTEGER
),
timed AS (
    SELECT kernel.*, COALESCE(role_call.wait_ns, 0) AS wait_ns
    FROM kernel
    INNER JOIN role_call ON kernel.id = role_call.kernel_id
    WHERE (kernel.rank, kernel.step_id) IN (SELECT (rank, step_id) FROM outlier) AND kernel.layer IS NOT NULL
),
role_time AS (
    SELECT rank, step_id, pass, layer, role, SUM(dur - wait_ns) AS dur
    FROM timed
    GROUP BY ALL
    UNION ALL
    SELECT rank, step_id, pass, layer, 'waiting', SUM(wait_ns)
    FROM timed
    GROUP BY ALL
),
role_excess AS (
    SELECT
        rank, step_id, pass, layer, role,
        dur - median(dur) OVER (PARTITION BY rank, step_id, pass, role) AS excess_ns
    FROM role_time
),
idle_excess AS (
    SELECT
        rank, step_id, pass, layer,
        'idle' AS role,
        idle_ns - median(idle_ns) OVER (PARTITION BY rank, step_id, pass) AS excess_ns
    FROM layer
    WHERE (rank, step_id) IN (SELECT (rank, step_id) FROM outlier)
),
slowest AS (
    SELECT rank, step_id, pass, layer, arg_max(role, excess_ns) AS slowest_role
    FROM (FROM role_excess UNION ALL FROM idle_excess)
    GROUP BY rank, step_id, pass, layer
)
SELECT
    outlier.rank, outlier.step_id, step.number, step.phase, outlier.layer, outlier.dur,
    outlier.median_ns, outlier.excess_ns, outlier.score, slowest.slowest_role
FROM outlier
INNER JOIN step USING (step_id)
LEFT JOIN slowest
    ON outlier.rank = slowest.rank AND outlier.step_id = slowest.step_id
    AND outlier.pass IS NOT DISTINCT FROM slowest.pass AND outlier.layer = slowest.layer
ORDER BY outlier.excess_ns DESC, outlier.rank, outlier.step_id, outlier.layer
