-- Kernels have no layer or role, or layers that should be alike are not: numbers per layer are uncertain, sums hold.
--
-- Layers are of one kind if, in most passes, all or none of them write a KV cache, update a state, rotate positions and have
-- experts. The first and the last pass of a rank may be cut.
-- @title   kernels without a layer or role
-- @group   recording
-- @most    remark
-- @query   layers.roles
-- @record  Load a trace of a model whose layers are recognized.
-- @source  own: the limits of the ledger, and layers of one kind have the same parts
-- @needs   kernel, layer_kind, layer_part, ledger, rank_model
WITH inside AS (
    SELECT *
    FROM (
        SELECT *, pass > MIN(pass) OVER of_rank AND pass < MAX(pass) OVER of_rank AS is_inside
        FROM layer_part
        WINDOW of_rank AS (PARTITION BY rank)
    )
    WHERE is_inside
),
-- Sums of hashes stand for what a layer has, whatever the order: they cost less than lists.
layer_done AS (
    SELECT
        rank, pass, layer,
        SUM(hash(role, kernels)) FILTER (kernels > 0) AS parts,
        SUM(hash(role, workers)) FILTER (role IS NOT NULL) AS work,
        MAX(has_cache::INTEGER) + 2 * MAX(has_state::INTEGER) + 4 * MAX(has_rope::INTEGER) + 8 * MAX(has_experts::INTEGER) AS kind
    FROM inside
    GROUP BY rank, pass, layer
),
kind_of_layer AS (
    SELECT rank, layer, MODE(kind) AS kind FROM layer_done GROUP BY rank, layer
),
alike AS (
    SELECT layer_done.rank, layer_done.pass, kind_of_layer.kind, layer_done.parts, COUNT(*) AS layers
    FROM layer_done
    INNER JOIN kind_of_layer USING (rank, layer)
    GROUP BY ALL
),
compared AS (
    SELECT SUM(layers) AS layers, SUM(layers) - MAX(layers) AS unlike FROM alike GROUP BY rank, pass, kind
),
-- Most layers have the same kernels: one layer of each pattern is compared.
pattern AS (
    SELECT rank, work, COUNT(*) AS layers, MIN((pass, layer)) AS example FROM layer_done GROUP BY rank, work
),
worked AS (
    SELECT pattern.rank, pattern.work, inside.role, inside.workers
    FROM pattern
    INNER JOIN inside
        ON pattern.rank = inside.rank AND pattern.example[1] = inside.pass AND pattern.example[2] = inside.layer
),
-- The kind of a layer in its family is the one whose roles it has best.
found AS (
    SELECT
        pattern.rank, pattern.work, pattern.layers, layer_kind.kind,
        COUNT(*) FILTER (COALESCE(worked.workers, 0) = 1) AS fitting,
        COUNT(*) FILTER (COALESCE(worked.workers, 0) <> 1) AS wrong
    FROM pattern
    INNER JOIN rank_model USING (rank)
    INNER JOIN layer_kind USING (family)
    CROSS JOIN LATERAL (SELECT UNNEST(layer_kind.once) AS role) AS expected
    LEFT JOIN worked ON pattern.rank = worked.rank AND pattern.work IS NOT DISTINCT FROM worked.work AND expected.role = worked.role
    GROUP BY pattern.rank, pattern.work, pattern.layers, layer_kind.kind
),
fit AS (
    SELECT layers, arg_min(wrong, (wrong, -fitting, kind)) AS wrong FROM found GROUP BY rank, work, layers
),
short_pass AS (
    SELECT COUNT(*) AS passes
    FROM (
        SELECT layer_done.rank, layer_done.pass
        FROM layer_done
        INNER JOIN rank_model USING (rank)
        GROUP BY layer_done.rank, layer_done.pass, rank_model.layers
        HAVING COUNT(*) <> rank_model.layers
    )
),
layers AS (
    SELECT COALESCE(SUM(layers), 0) AS layers, COALESCE(SUM(unlike), 0) AS unlike FROM compared
),
written AS (
    SELECT COUNT(*) AS writes, COUNT(*) FILTER (layer IS NULL) AS outside FROM kernel WHERE category = 'kv_cache'
),
failed AS (
    SELECT
        100.0 * SUM(value) FILTER (check_name = 'time without a layer or role')
        / SUM(total) FILTER (check_name = 'time without a layer or role') AS unknown_pct,
        100.0 * SUM(value) FILTER (check_name = 'time in layers without a role')
        / SUM(total) FILTER (check_name = 'time in layers without a role') AS roleless_pct,
        MIN(note) FILTER (check_name IN ('layers of the model', 'model family')) AS model_note,
        COUNT(*) AS checks
    FROM ledger
    WHERE
        NOT ok
        AND check_name IN (
            'time without a layer or role', 'time in layers without a role', 'layers attributed', 'layers of the model', 'model family'
        )
),
largest AS (
    SELECT arg_max(name, ns) AS name, MAX(ns) / NULLIF(SUM(ns), 0) AS share
    FROM (
        SELECT kernel.name, SUM(kernel.dur) AS ns
        FROM kernel
        CROSS JOIN failed
        WHERE failed.unknown_pct IS NOT NULL AND kernel.layer IS NULL AND kernel.role IS NULL
        GROUP BY kernel.name
    )
),
judged AS (
    SELECT
        *, (SELECT COALESCE(SUM(layers), 0) FROM fit WHERE wrong > 0) AS odd, (SELECT COUNT(*) FROM kernel) AS kernels
    FROM layers
    CROSS JOIN short_pass
    CROSS JOIN written
    CROSS JOIN failed
    CROSS JOIN largest
)
SELECT
    CASE
        WHEN kernels = 0 THEN NULL
        ELSE checks > 0 OR unlike > 0 OR odd > 0 OR passes > 0 OR (outside > 0 AND outside < writes)
    END AS is_confirmed,
    CASE
        WHEN kernels = 0 THEN 'no kernel was recorded'
        WHEN layers = 0 THEN 'no model with layers was recognized'
        ELSE format('{:,} layers are like others of their kind, and nearly all time has a role', layers)
    END AS reason,
    CASE
        WHEN unknown_pct IS NOT NULL THEN format('{:.1f}% of the kernel time has no layer or role; sums hold', unknown_pct)
        WHEN outside > 0 AND outside = writes THEN 'No layer was recognized; sums hold'
        WHEN unlike + odd > 0 THEN format('{:,} of {:,} layers differ from others of their kind; sums hold', GREATEST(unlike, odd), layers)
        WHEN passes > 0 THEN format('{} forward passes have other numbers of layers than most; sums hold', passes)
        ELSE 'The layers found are not those of the model configuration; sums hold'
    END AS headline,
    [
        CASE WHEN unknown_pct IS NOT NULL THEN format('{:.1f}% of the time has neither a layer nor a role.', unknown_pct) END,
        CASE WHEN roleless_pct IS NOT NULL THEN format('{:.1f}% of the time in layers has no role.', roleless_pct) END,
        CASE WHEN unknown_pct IS NOT NULL AND share > 0.1
            THEN format('{:.0f}% of that is {}.', 100 * share, name[:80])
        END,
        CASE WHEN outside > 0 THEN format('{:,} of {:,} KV-cache writes are in no layer.', outside, writes) END,
        CASE WHEN unlike > 0 THEN format('{:,} of {:,} layers have other parts than most of their kind.', unlike, layers) END,
        CASE WHEN odd > 0 THEN format('{:,} layers lack a role that each layer has once, or have it twice.', odd) END,
        CASE WHEN passes > 0 THEN format('{} forward passes have other numbers of layers.', passes) END,
        model_note || '.'
    ] AS evidence,
    CASE
        WHEN model_note IS NOT NULL THEN 'Load with the configuration of the recorded model: traceql load --model-config config.json'
        ELSE 'Record with named layers: traceql capture run --annotate layers'
    END AS remedy,
    'Numbers per layer and role; totals, phases and causes of lost time do not depend on them.' AS unknowns,
    TRUE AS is_remark
FROM judged
