-- One row per kernel of the trace and profile of Nsight Compute that has launches of its key: which launches stand for it.
--
-- If the launches of a profile, in their order, have the same names, grids and blocks as all kernels
-- of a rank, each kernel has its own launch. If they are those of a step, once or several times over, a
-- kernel of such a step has the launches at its place. Else a kernel has the mean of all launches of
-- its key. Collectives do not count in the order, unless they were profiled: under Nsight
-- Compute, kernels that wait for other ranks hang.
-- @scope  run
-- @needs  kernel, keyed_launch, profiled_launch, step
-- @column kernel_id  BIGINT   Kernel (kernel.id).
-- @column rank       BIGINT   Rank whose GPU ran it.
-- @column file_id    BIGINT   Profile (profile_file.id).
-- @column key_id     BIGINT   Name, grid and block that both have (kernel_key.id).
-- @column how        VARCHAR  order (of all kernels of the rank), range (order in all steps of a name, or in one step; the name is an NVTX range if the profile has it) or mean (of all launches of the key).
-- @column launch     BIGINT   Launch (profiled_launch.id) of the kernel; NULL for a mean.
-- @column launches   BIGINT   Number of launches of the mean; 1 for one that is known by its order, of which there may be several rows.
WITH traced AS (
    SELECT keyed_launch.kernel_id, keyed_launch.shape_id, kernel.rank, kernel.ts, kernel.step_id, step.name AS range_name
    FROM keyed_launch
    INNER JOIN kernel ON keyed_launch.kernel_id = kernel.id
    LEFT JOIN step USING (step_id)
    WHERE
        kernel.category <> 'collective'
        OR keyed_launch.shape_id IN (SELECT shape_id FROM keyed_launch WHERE launch IS NOT NULL)
),
profiled AS (
    SELECT
        keyed_launch.launch,
        keyed_launch.shape_id,
        profiled_launch.file_id,
        profiled_launch.ranges,
        dense_rank() OVER (ORDER BY profiled_launch.file_id, profiled_launch.process_id, profiled_launch.device) AS part
    FROM keyed_launch
    INNER JOIN profiled_launch ON keyed_launch.launch = profiled_launch.id
),
traced_place AS (
    SELECT
        'rank' AS scope, rank AS number, NULL AS range_name, kernel_id, shape_id,
        ROW_NUMBER() OVER (PARTITION BY rank ORDER BY ts, kernel_id) AS place
    FROM traced
    UNION ALL
    SELECT
        'range', rank, range_name, kernel_id, shape_id,
        ROW_NUMBER() OVER (PARTITION BY rank, range_name ORDER BY ts, kernel_id)
    FROM traced
    WHERE range_name IS NOT NULL
    UNION ALL
    SELECT
        'step', step_id, range_name, kernel_id, shape_id,
        ROW_NUMBER() OVER (PARTITION BY step_id ORDER BY ts, kernel_id)
    FROM traced
    WHERE step_id IS NOT NULL
),
profiled_place AS (
    SELECT
        'part' AS scope, part, NULL AS range_name, file_id, launch, shape_id,
        ROW_NUMBER() OVER (PARTITION BY part ORDER BY launch) AS place
    FROM profiled
    UNION ALL
    SELECT
        'range', part, range_name, file_id, launch, shape_id,
        ROW_NUMBER() OVER (PARTITION BY part, range_name ORDER BY launch)
    FROM (SELECT * EXCLUDE (ranges), unnest(list_distinct(ranges)) AS range_name FROM profiled)
    WHERE range_name IN (SELECT name FROM step)
),
traced_sequence AS (
    SELECT scope, number, range_name, list(shape_id ORDER BY place) AS shapes
    FROM traced_place
    GROUP BY scope, number, range_name
),
profiled_sequence AS (
    SELECT scope, part, range_name, list(shape_id ORDER BY place) AS shapes
    FROM profiled_place
    GROUP BY scope, part, range_name
),
-- Profiles that are the kernels of a step, over and over.
repetition AS (
    SELECT step.shapes AS step_shapes, profile.shapes AS profile_shapes
    FROM (SELECT DISTINCT shapes FROM traced_sequence WHERE scope = 'step') AS step
    INNER JOIN (SELECT DISTINCT shapes FROM profiled_sequence) AS profile
        ON len(profile.shapes) % len(step.shapes) = 0
    WHERE
        profile.shapes
        = flatten(list_transform(range(len(profile.shapes) // len(step.shapes)), lambda _nth: step.shapes))
),
same AS (
    SELECT
        CASE traced_sequence.scope WHEN 'rank' THEN 0 ELSE 1 END AS place,
        traced_sequence.scope AS traced_scope,
        traced_sequence.number,
        traced_sequence.range_name AS traced_range,
        profiled_sequence.scope AS profiled_scope,
        profiled_sequence.part,
        profiled_sequence.range_name AS profiled_range,
        len(traced_sequence.shapes) AS kernels
    FROM traced_sequence
    INNER JOIN profiled_sequence USING (shapes)
    WHERE
        (traced_sequence.scope = 'rank' AND profiled_sequence.scope = 'part')
        OR (
            traced_sequence.scope = 'range'
            AND profiled_sequence.scope = 'range'
            AND traced_sequence.range_name = profiled_sequence.range_name
        )
    UNION ALL
    SELECT
        CASE profiled_sequence.scope WHEN 'range' THEN 2 ELSE 3 END,
        traced_sequence.scope,
        traced_sequence.number,
        traced_sequence.range_name,
        profiled_sequence.scope,
        profiled_sequence.part,
        profiled_sequence.range_name,
        len(traced_sequence.shapes)
    FROM traced_sequence
    INNER JOIN repetition ON traced_sequence.shapes = repetition.step_shapes
    INNER JOIN profiled_sequence ON repetition.profile_shapes = profiled_sequence.shapes
    WHERE
        traced_sequence.scope = 'step'
        AND (profiled_sequence.scope = 'part' OR traced_sequence.range_name = profiled_sequence.range_name)
),
-- Of several places that a kernel has in a part of a profile, that in the longest sequence counts.
ordered AS (
    SELECT
        traced_place.kernel_id,
        profiled_place.file_id,
        profiled_place.launch,
        CASE same.place WHEN 0 THEN 'order' ELSE 'range' END AS how
    FROM same
    INNER JOIN traced_place
        ON same.traced_scope = traced_place.scope
        AND same.number = traced_place.number
        AND same.traced_range IS NOT DISTINCT FROM traced_place.range_name
    INNER JOIN profiled_place
        ON same.profiled_scope = profiled_place.scope
        AND same.part = profiled_place.part
        AND same.profiled_range IS NOT DISTINCT FROM profiled_place.range_name
        AND traced_place.place = (profiled_place.place - 1) % same.kernels + 1
    QUALIFY same.place = MIN(same.place) OVER (PARTITION BY traced_place.kernel_id, same.part)
),
of_key AS (
    SELECT keyed_launch.key_id, profiled_launch.file_id, COUNT(*) AS launches
    FROM keyed_launch
    INNER JOIN profiled_launch ON keyed_launch.launch = profiled_launch.id
    GROUP BY keyed_launch.key_id, profiled_launch.file_id
),
matched AS (
    SELECT keyed_launch.kernel_id, ordered.file_id, keyed_launch.key_id, ordered.how, ordered.launch, 1 AS launches
    FROM ordered
    INNER JOIN keyed_launch USING (kernel_id)
    UNION ALL
    SELECT keyed_launch.kernel_id, of_key.file_id, of_key.key_id, 'mean', NULL, of_key.launches
    FROM keyed_launch
    INNER JOIN of_key USING (key_id)
    WHERE
        keyed_launch.kernel_id IS NOT NULL
        AND NOT EXISTS (
            FROM ordered
            WHERE ordered.kernel_id = keyed_launch.kernel_id AND ordered.file_id = of_key.file_id
        )
)
SELECT matched.kernel_id, kernel.rank, matched.file_id, matched.key_id, matched.how, matched.launch, matched.launches
FROM matched
INNER JOIN kernel ON matched.kernel_id = kernel.id
ORDER BY matched.kernel_id, matched.file_id, matched.launch
