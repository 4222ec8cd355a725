-- One row per call of a module that is a layer, where the name of its class alone does not give its number.
--
-- Frames number the instances of every class: BertLayer_3, but also Linear_7. If a rank has layers of a
-- decoder by their names (module.layer), only they count; if these are of several classes, such as the two
-- kinds of blocks of Flux, they are numbered together, in the order of their first calls. Otherwise a
-- layer is the outermost module of which a class path has several instances. Modules
-- without modules inside are not layers, nor are wrappers (one module inside) and stacks, which mostly run several
-- instances of one class that is neither an attention nor an MLP. Of several classes of layers, as in a model with an image encoder,
-- the one that takes most time on the host counts. All its instances are numbered in their order, also those of
-- several stacks, such as the encoder and the decoder of T5. Ranges are layers by the number in their names
-- (encoder.layer.2), of the stack that takes most time.
-- @kind   scratch
-- @scope  rank
-- @needs  is_of_other_model, slice, slice_module
-- @empty_unless slice_module
-- @column id     BIGINT  Call (slice_module.id).
-- @column layer  BIGINT  Layer, from 0 on its rank; for a range, the number in its name.
WITH RECURSIVE call AS (
    SELECT
        slice_module.id, slice_module.rank, slice_module.kind, slice_module.class,
        slice_module.outer_module_id AS parent_id,
        GREATEST(slice.dur, 0) AS dur,
        -- The name of a range has the stack and the number; each module of a class path has its own number.
        CASE slice_module.kind
            WHEN 'module' THEN slice_module.number
            ELSE TRY_CAST(regexp_extract(slice_module.class, '(?:^|/)(?:layers?|h|blocks?)/(\d+)(?:/|$)', 1) AS BIGINT)
        END AS number,
        regexp_extract(slice_module.class, '^((?:.*?/)??(?:layers?|h|blocks?))/\d+(?:/|$)', 1) AS stack
    FROM slice_module
    INNER JOIN slice USING (id)
    WHERE slice_module.kind IS NOT NULL
),
placed AS (
    SELECT *, class AS path FROM call WHERE parent_id IS NULL
    UNION ALL
    SELECT call.*, CASE call.kind WHEN 'annotation' THEN call.class ELSE placed.path || '/' || call.class END
    FROM placed
    INNER JOIN call ON placed.id = call.parent_id
),
of_decoder AS (
    SELECT * FROM placed
    WHERE NOT is_of_other_model(path) AND number IS NOT NULL
        AND (kind = 'annotation' OR regexp_matches(class, '(DecoderLayer|TransformerBlock|TransformerLayer)$'))
),
of_several_classes AS (
    SELECT rank, id, MIN(id) OVER (PARTITION BY rank, class, number) AS first_id
    FROM of_decoder
    WHERE kind = 'module' AND NOT regexp_matches(path, '(DecoderLayer|TransformerBlock|TransformerLayer)/')
    QUALIFY MIN(class) OVER (PARTITION BY rank) <> MAX(class) OVER (PARTITION BY rank)
),
repeated AS (
    SELECT *, CASE kind WHEN 'module' THEN path ELSE stack END AS place
    FROM placed
    WHERE
        number IS NOT NULL
        AND rank NOT IN (SELECT rank FROM of_decoder)
        AND (kind = 'annotation' OR id IN (SELECT parent_id FROM call))
    QUALIFY MIN(number) OVER (PARTITION BY rank, kind, place) < MAX(number) OVER (PARTITION BY rank, kind, place)
),
-- Each of these calls, with the calls around it.
around AS (
    SELECT id, place, kind, class, number, dur, parent_id AS outer_id FROM repeated
    UNION ALL
    SELECT around.* EXCLUDE (outer_id), call.parent_id
    FROM around
    INNER JOIN call ON around.outer_id = call.id
),
inside AS (
    SELECT
        whole.id, whole.rank, whole.place,
        around.place AS part_place,
        COUNT(DISTINCT around.number) AS parts,
        SUM(around.dur) AS parts_ns,
        ANY_VALUE(whole.dur) AS whole_ns
    FROM around
    INNER JOIN repeated AS whole ON around.outer_id = whole.id
    WHERE around.kind = 'module' AND NOT regexp_matches(around.class, '(?i)attention|attn|mlp|ffn|feed_?forward|expert|norm')
    GROUP BY whole.id, whole.rank, whole.place, around.place
),
stack AS (
    SELECT rank, place
    FROM inside
    GROUP BY rank, place, part_place
    HAVING MAX(parts) > 1 AND 2 * SUM(parts_ns) > SUM(whole_ns)
),
wrapper AS (
    SELECT rank, place
    FROM (
        SELECT outside.rank, outside.place, COUNT(*) AS modules, BOOL_AND(module.id IN (SELECT parent_id FROM call)) AS is_around_modules
        FROM repeated AS outside
        INNER JOIN call AS module ON outside.id = module.parent_id
        WHERE outside.kind = 'module'
        GROUP BY outside.id, outside.rank, outside.place
    )
    GROUP BY rank, place
    HAVING MAX(modules) = 1 AND BOOL_AND(is_around_modules)
),
possible AS (
    SELECT *
    FROM repeated
    ANTI JOIN stack USING (rank, place)
    ANTI JOIN wrapper USING (rank, place)
),
outermost AS (
    SELECT *, CASE kind WHEN 'module' THEN class ELSE stack END AS name
    FROM possible
    WHERE id NOT IN (SELECT around.id FROM around INNER JOIN possible AS outside ON around.outer_id = outside.id)
),
chosen AS (
    SELECT rank, arg_max(ROW(kind, name), ROW(ns, name)) AS best
    FROM (SELECT rank, kind, name, SUM(dur) AS ns FROM outermost GROUP BY rank, kind, name)
    GROUP BY rank
)
SELECT
    outermost.id,
    CASE outermost.kind
        WHEN 'annotation' THEN outermost.number
        ELSE DENSE_RANK() OVER (PARTITION BY outermost.rank ORDER BY outermost.number) - 1
    END AS layer
FROM outermost
INNER JOIN chosen ON outermost.rank = chosen.rank AND ROW(outermost.kind, outermost.name) = chosen.best
UNION ALL
SELECT id, DENSE_RANK() OVER (PARTITION BY rank ORDER BY first_id) - 1 AS layer FROM of_several_classes
