-- One row with the check of the ledger of the sizes of parallelism in run.json, if any of them does not hold.
-- @kind   scratch
-- @scope  run
-- @needs  kernel, layout, operation, rank_model, recorder, run, trace
-- @empty_unless run
-- @column place       INTEGER  Place among the checks of a rank.
-- @column rank        BIGINT   First rank; NULL without a trace.
-- @column check_name  VARCHAR  Name of the check.
-- @column value       BIGINT   Sizes that hold.
-- @column total       BIGINT   Sizes that run.json states.
-- @column ok          BOOLEAN  FALSE.
-- @column note        VARCHAR  Meaning of value and total, and why sizes do not hold.
WITH possible AS (
    SELECT
        CASE WHEN tp BETWEEN 1 AND 2147483647 THEN tp END AS tp,
        CASE WHEN pp BETWEEN 1 AND 2147483647 THEN pp END AS pp,
        CASE WHEN dp BETWEEN 1 AND 2147483647 THEN dp END AS dp,
        CASE WHEN world_size BETWEEN 1 AND 2147483647 THEN world_size END AS world_size
    FROM run
),
-- A size is unknown if those of several run directories differ.
stated_size AS (
    SELECT
        CASE WHEN MIN(tp) = MAX(tp) THEN MIN(tp) END AS tp,
        CASE WHEN MIN(pp) = MAX(pp) THEN MIN(pp) END AS pp,
        CASE WHEN MIN(dp) = MAX(dp) THEN MIN(dp) END AS dp,
        CASE WHEN MIN(world_size) = MAX(world_size) THEN MIN(world_size) END AS world_size
    FROM possible
),
place AS (
    UNPIVOT (SELECT tp_rank AS tp, pp_rank AS pp, dp_rank AS dp, rank AS world_size FROM trace)
    ON tp, pp, dp, world_size INTO NAME size VALUE number
),
stated AS (UNPIVOT (FROM stated_size) ON tp, pp, dp, world_size INTO NAME size VALUE ranks),
-- The numbers of ranks that operations state which only tensor parallelism has.
tensor_operation AS (
    SELECT DISTINCT group_size AS ranks
    FROM operation
    WHERE role IN ('attn_allreduce', 'logits_gather') AND group_size IS NOT NULL
),
logits AS (SELECT DISTINCT rank FROM kernel WHERE role = 'lm_head'),
found AS (
    UNPIVOT (SELECT DISTINCT tp_size AS tp, pp_size AS pp, dp_size AS dp, source FROM layout)
    ON tp, pp, dp INTO NAME size VALUE ranks
),
refuted AS (
    SELECT size, format('{} is {}, but a rank has the number {} there', size, stated.ranks, MAX(place.number)) AS reason
    FROM place
    INNER JOIN stated USING (size)
    WHERE place.number >= stated.ranks
    GROUP BY size, stated.ranks
    UNION ALL
    SELECT 'tp', format('tp is {}, but {} ranks take part in tensor-parallel operations', stated_size.tp, tensor_operation.ranks)
    FROM stated_size
    INNER JOIN tensor_operation ON stated_size.tp != tensor_operation.ranks
    UNION ALL
    SELECT 'tp', 'tp is 1, but ranks add up parts of attention'
    FROM stated_size
    WHERE
        tp = 1
        AND NOT EXISTS (FROM tensor_operation)
        AND EXISTS (FROM kernel WHERE role = 'attn_allreduce')
    UNION ALL
    SELECT
        'pp', format('pp is {}, but {} stages are found ({})', stated_size.pp, COALESCE(rank_model.stages::VARCHAR, 'more'), rank_model.source)
    FROM stated_size
    INNER JOIN rank_model ON stated_size.pp != COALESCE(rank_model.stages, 0)
    GROUP BY ALL
    UNION ALL
    SELECT 'pp', format('pp is {}, but ranks of stage {} compute logits', stated_size.pp, rank_model.stage)
    FROM stated_size
    INNER JOIN rank_model ON rank_model.stage + 1 < stated_size.pp
    INNER JOIN logits ON rank_model.rank = logits.rank
    GROUP BY ALL
    UNION ALL
    SELECT 'world_size', format('world_size is {}, but tp x pp x dp is {}', world_size, tp::HUGEINT * pp * dp)
    FROM stated_size
    WHERE tp::HUGEINT * pp * dp != world_size
    UNION ALL
    SELECT
        'world_size', format('world_size is {}, but a trace is of a job of {} ranks', stated_size.world_size, recorder.world_size)
    FROM stated_size
    INNER JOIN recorder ON recorder.world_size > 0 AND stated_size.world_size % recorder.world_size != 0
    GROUP BY ALL
),
contradicted_config AS (
    FROM refuted
    UNION ALL
    SELECT size, format('{} is {}, but {} fits ({})', size, stated.ranks, found.ranks, found.source)
    FROM found
    INNER JOIN stated USING (size)
    WHERE found.ranks != stated.ranks AND size NOT IN (SELECT size FROM refuted)
)
SELECT
    41 AS place, (SELECT MIN(rank) FROM trace) AS rank, 'sizes in run.json' AS check_name,
    ANY_VALUE(stated.sizes) - COUNT(DISTINCT contradicted_config.size) AS value, ANY_VALUE(stated.sizes) AS total, FALSE AS ok,
    'sizes of parallelism in run.json that hold; all that it states; '
    || string_agg(contradicted_config.reason, '; ' ORDER BY contradicted_config.reason) AS note
FROM contradicted_config
CROSS JOIN (SELECT COUNT(tp) + COUNT(pp) + COUNT(dp) + COUNT(world_size) AS sizes FROM stated_size) AS stated
HAVING COUNT(*) > 0
