-- One row per kernel of the trace and profile of Nsight Compute that has launches of its key: which launches stand for it.
--
-- If the launches of a profile, in their order, have the keys of all kernels of a rank, each kernel
-- has its own launch. If they are those of a step, once or several times over, a kernel of such a step
-- has the launches at its place. Launches in the NVTX range of a step are compared with the kernels that
-- were launched inside that annotation, and stand for no step of another name. Else a kernel has the
-- mean of all launches of its key. Collectives do not count in the order, unless they were profiled:
-- under Nsight Compute, kernels that wait for other ranks hang.
-- @scope  run
-- @needs  kernel, launch, launch_key, profiled_launch, step
-- @empty_unless launch_key
-- @column kernel_id  BIGINT   Kernel (kernel.id).
-- @column rank       BIGINT   Rank whose GPU ran it.
-- @column file_id    BIGINT   Profile (profile_file.id).
-- @column key_id     BIGINT   Name, grid and block that both have (kernel_key.id).
-- @column how        VARCHAR  order (of all kernels of the rank), range (order in all steps of a name, or in one step; the name is an NVTX range if the profile has it) or mean (of all launches of the key).
-- @column launch     BIGINT   Launch (profiled_launch.id) of the kernel; NULL for a mean.
-- @column launches   BIGINT   Number of launches of the mean; 1 for one that is known by its order, of which there may be several rows.
WITH traced AS (
    SELECT
        launch_key.kernel_id, launch_key.key_id, kernel.rank, kernel.ts, kernel.step_id,
        step.name AS range_name,
        COALESCE(launch.ts BETWEEN step.ts AND step.ts + step.dur, FALSE) AS is_inside
    FROM launch_key
    INNER JOIN kernel ON launch_key.kernel_id = kernel.id
    LEFT JOIN launch ON kernel.launch_id = launch.id
    LEFT JOIN step ON kernel.step_id = step.step_id
    WHERE
        kernel.category <> 'collective'
        OR launch_key.key_id IN (SELECT key_id FROM launch_key WHERE launch IS NOT NULL)
),
profiled AS (
    SELECT
        launch_key.launch, launch_key.key_id, profiled_launch.file_id, profiled_launch.ranges,
        dense_rank() OVER (ORDER BY profiled_launch.file_id, profiled_launch.process_id, profiled_launch.device) AS part
    FROM launch_key
    INNER JOIN profiled_launch ON launch_key.launch = profiled_launch.id
),
traced_place AS (
    SELECT
        'rank' AS scope, rank AS number, NULL AS range_name, kernel_id, key_id,
        ROW_NUMBER() OVER (PARTITION BY rank ORDER BY ts, kernel_id) AS place
    FROM traced
    UNION ALL
    SELECT
        'range', rank, range_name, kernel_id, key_id,
        ROW_NUMBER() OVER (PARTITION BY rank, range_name ORDER BY ts, kernel_id)
    FROM traced
    WHERE is_inside AND range_name IS NOT NULL
    UNION ALL
    SELECT
        'annotation', step_id, range_name, kernel_id, key_id,
        ROW_NUMBER() OVER (PARTITION BY step_id ORDER BY ts, kernel_id)
    FROM traced
    WHERE is_inside
    UNION ALL
    SELECT
        'step', step_id, range_name, kernel_id, key_id,
        ROW_NUMBER() OVER (PARTITION BY step_id ORDER BY ts, kernel_id)
    FROM traced
    WHERE step_id IS NOT NULL
),
profiled_place AS (
    SELECT
        'part' AS scope, part, NULL AS range_name, file_id, launch, key_id,
        ROW_NUMBER() OVER (PARTITION BY part ORDER BY launch) AS place
    FROM profiled
    UNION ALL
    SELECT
        'range', part, range_name, file_id, launch, key_id,
        ROW_NUMBER() OVER (PARTITION BY part, range_name ORDER BY launch)
    FROM (SELECT * EXCLUDE (ranges), unnest(list_distinct(ranges)) AS range_name FROM profiled)
    WHERE range_name IN (SELECT name FROM step)
),
traced_sequence AS (
    SELECT scope, number, range_name, list(key_id ORDER BY place) AS keys
    FROM traced_place
    GROUP BY scope, number, range_name
),
profiled_sequence AS (
    SELECT scope, part, range_name, list(key_id ORDER BY place) AS keys
    FROM profiled_place
    GROUP BY scope, part, range_name
),
-- Profiles that are the kernels of a step, or of its annotation, over and over.
repetition AS (
    SELECT step.keys AS step_keys, profile.keys AS profile_keys
    FROM (SELECT DISTINCT keys FROM traced_sequence WHERE scope IN ('annotation', 'step')) AS step
    INNER JOIN (SELECT DISTINCT keys FROM profiled_sequence) AS profile
        ON len(profile.keys) % len(step.keys) = 0
    WHERE
        profile.keys
        = flatten(list_transform(range(len(profile.keys) // len(step.keys)), lambda _nth: step.keys))
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
        len(traced_sequence.keys) AS kernels
    FROM traced_sequence
    INNER JOIN profiled_sequence USING (keys)
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
        traced_sequence.scope, traced_sequence.number, traced_sequence.range_name,
        profiled_sequence.scope, profiled_sequence.part, profiled_sequence.range_name,
        len(traced_sequence.keys)
    FROM traced_sequence
    INNER JOIN repetition ON traced_sequence.keys = repetition.step_keys
    INNER JOIN profiled_sequence ON repetition.profile_keys = profiled_sequence.keys
    WHERE
        (
            traced_sequence.scope = 'annotation'
            AND profiled_sequence.scope = 'range'
            AND traced_sequence.range_name = profiled_sequence.range_name
        )
        OR (
            traced_sequence.scope = 'step'
            AND profiled_sequence.scope = 'part'
            AND NOT EXISTS (
                FROM profiled_sequence AS other
                WHERE
                    other.scope = 'range'
                    AND other.part = profiled_sequence.part
                    AND other.range_name <> traced_sequence.range_name
            )
        )
),
-- Of several places that a kernel has in a part of a profile, that in the longest sequence counts.
ordered AS (
    SELECT
        traced_place.kernel_id, profiled_place.file_id, profiled_place.launch,
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
    SELECT launch_key.key_id, profiled_launch.file_id, COUNT(*) AS launches
    FROM launch_key
    INNER JOIN profiled_launch ON launch_key.launch = profiled_launch.id
    GROUP BY launch_key.key_id, profiled_launch.file_id
),
matched AS (
    SELECT launch_key.kernel_id, ordered.file_id, launch_key.key_id, ordered.how, ordered.launch, 1 AS launches
    FROM ordered
    INNER JOIN launch_key USING (kernel_id)
    UNION ALL
    SELECT launch_key.kernel_id, of_key.file_id, of_key.key_id, 'mean', NULL, of_key.launches
    FROM launch_key
    INNER JOIN of_key USING (key_id)
    WHERE
        launch_key.kernel_id IS NOT NULL
        AND NOT EXISTS (
            FROM ordered
            WHERE ordered.kernel_id = launch_key.kernel_id AND ordered.file_id = of_key.file_id
        )
)
SELECT matched.kernel_id, kernel.rank, matched.file_id, matched.key_id, matched.how, matched.launch, matched.launches
FROM matched
INNER JOIN kernel ON matched.kernel_id = kernel.id
ORDER BY matched.kernel_id, matched.file_id, matched.launch
