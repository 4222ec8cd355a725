-- One row per check of the ledger about a profile of Nsight Compute: what it holds, and how it fits the trace.
-- @kind   scratch
-- @scope  run
-- @needs  kernel, kernel_key, kernel_match, launch_key, profile_check, profile_file, profiled_launch, trace
-- @empty_unless profile_file
-- @column place       INTEGER  Place among the checks of a rank.
-- @column rank        BIGINT   Rank; the first one where the check is about a file, NULL without a trace.
-- @column check_name  VARCHAR  Name of the check.
-- @column value       BIGINT   What was found.
-- @column total       BIGINT   The whole that value is a part of.
-- @column ok          BOOLEAN  Whether the check holds; NULL if there is nothing to check.
-- @column note        VARCHAR  Meaning of value and total.
WITH standing AS (
    SELECT DISTINCT launch_key.launch
    FROM launch_key
    INNER JOIN profiled_launch ON launch_key.launch = profiled_launch.id
    INNER JOIN kernel_match
        ON profiled_launch.file_id = kernel_match.file_id
        AND (
            launch_key.launch = kernel_match.launch
            OR (kernel_match.launch IS NULL AND launch_key.key_id = kernel_match.key_id)
        )
),
of_file AS (
    SELECT profiled_launch.file_id, COUNT(standing.launch) AS standing, COUNT(*) AS launches
    FROM profiled_launch
    LEFT JOIN standing ON profiled_launch.id = standing.launch
    GROUP BY profiled_launch.file_id
),
file_entry AS (
    SELECT file_id, check_name, value, total, ok, note FROM profile_check
    UNION ALL
    SELECT
        file_id, 'launches of the profile', standing, launches,
        CASE WHEN EXISTS (FROM kernel WHERE kind = 'kernel') THEN standing > 0 END,
        'launches that stand for kernels of the trace (more than 0); launches in the file; ncu.joined says which'
    FROM of_file
    UNION ALL
    SELECT
        profiled_launch.file_id, 'GPU of the profile', COUNT(*) FILTER (profiled_launch.device_name = trace.device_name),
        COUNT(*), BOOL_AND(profiled_launch.device_name = trace.device_name),
        format(
            'launches on the GPU of the trace; all launches, on {}; other GPUs run other kernels and have other caches',
            string_agg(DISTINCT profiled_launch.device_name, ', ' ORDER BY profiled_launch.device_name)
        )
    FROM profiled_launch
    INNER JOIN trace
        ON trace.rank = (SELECT MIN(rank) FROM trace)
        AND profiled_launch.device_name IS NOT NULL
        AND trace.device_name IS NOT NULL
    GROUP BY profiled_launch.file_id
),
counted AS (
    SELECT
        kernel.rank,
        COUNT(kernel_match.kernel_id) AS kernels,
        COUNT(*) FILTER (kernel_match.is_mean) AS means,
        COUNT(*) AS total,
        CAST(COALESCE(SUM(kernel.dur) FILTER (kernel_match.kernel_id IS NOT NULL), 0) AS BIGINT) AS dur,
        CAST(SUM(kernel.dur) AS BIGINT) AS total_dur
    FROM kernel
    LEFT JOIN (SELECT kernel_id, BOOL_OR(launch IS NULL) AS is_mean FROM kernel_match GROUP BY kernel_id) AS kernel_match
        ON kernel.id = kernel_match.kernel_id
    WHERE kernel.kind = 'kernel' AND EXISTS (FROM profile_file)
    GROUP BY kernel.rank
),
varying AS (
    SELECT
        COUNT(*) FILTER (GREATEST(kernel_key.bytes_spread_pct, kernel_key.flops_spread_pct) > 5) AS keys,
        COUNT(*) AS total
    FROM kernel_key
    WHERE kernel_key.id IN (SELECT key_id FROM kernel_match WHERE launch IS NULL)
)
SELECT
    80 AS place,
    (SELECT MIN(rank) FROM trace) AS rank,
    file_entry.check_name, file_entry.value, file_entry.total, file_entry.ok,
    format('{}: {}', parse_filename(profile_file.path), file_entry.note) AS note
FROM file_entry
INNER JOIN profile_file ON file_entry.file_id = profile_file.id
UNION ALL
SELECT
    80, rank, 'kernels with counters', kernels, total, NULL,
    'kernels for which launches of a profile stand; all kernels'
FROM counted
UNION ALL
SELECT
    80, rank, 'kernel time with counters', dur, total_dur, NULL,
    'duration of the kernels for which launches of a profile stand; of all kernels, ns'
FROM counted
UNION ALL
SELECT
    80, rank, 'kernels with mean counters', means, kernels, NULL,
    'kernels with the mean of their name, grid and block, which do not tell the lengths in attention or the routing of experts; '
    || 'kernels for which launches stand'
FROM counted
WHERE means > 0
UNION ALL
SELECT
    80, (SELECT MIN(rank) FROM trace), 'counters that vary', keys, total, NULL,
    'names, grids and blocks whose launches differ by more than 5% in bytes or FLOPs, so that their mean may fit none; all that have a mean'
FROM varying
WHERE total > 0
