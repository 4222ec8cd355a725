-- Copies run while nothing is computed.
-- @title   exposed copies
-- @group   host
-- @after   pageable_copies
-- @query   kernels.top
-- @record  Record GPU activities in steps.
-- @source  own: a copy that runs beside kernels costs nothing
-- @needs   engine_step, exposed_copy, wording
WITH copy AS (
    SELECT
        CAST(SUM(copies) AS BIGINT) AS copies, MAX(steps) AS steps, SUM(pct) AS pct,
        flatten(list(claims)) AS claims,
        arg_max(kind, ns) AS kind, MAX(pct) AS kind_pct,
        arg_max(rank, dur) AS rank, arg_max(ts, dur) AS ts, MAX(dur) AS dur
    FROM exposed_copy
),
recorded AS (
    SELECT COUNT(*) AS steps FROM engine_step WHERE NOT is_edge
)
SELECT
    CASE WHEN recorded.steps > 0 THEN COALESCE(copy.copies >= 10 AND copy.pct >= 3, FALSE) END AS is_confirmed,
    CASE
        WHEN recorded.steps = 0 THEN 'no step between the first and the last one was recorded'
        ELSE format('copies and memory sets that run alone take {:.1f}% of a step', COALESCE(copy.pct, 0))
    END AS reason,
    format('Copies run alone for {{saving}} of each step, {:.1f}% of it', copy.pct) AS headline,
    [
        format('{:,} copies and memory sets in {} steps have no kernel beside them.', copy.copies, copy.steps),
        format('Most of it is {}: {:.1f}% of a step.', copy.kind, copy.kind_pct)
    ] AS evidence,
    CASE
        WHEN regexp_matches(copy.kind, 'HtoD|DtoH') THEN 'Copy on a stream of its own, from and to pinned memory, while kernels run: tensor.to(device, non_blocking=True) in torch.cuda.stream(s)'
        ELSE 'Avoid the copies: write results where they are needed (out=, views), or let torch.compile fuse them'
    END AS remedy,
    'Which operators copy: traceql run ops.top names those that were recorded.' AS unknowns,
    copy.claims, copy.copies AS samples, copy.rank, copy.ts, copy.dur
FROM copy
CROSS JOIN recorded
CROSS JOIN wording
