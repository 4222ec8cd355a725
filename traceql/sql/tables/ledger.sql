-- One row per rank and check: whether the database holds what the trace file has, and how much of it was recognized.
-- @schema main
-- @scope  run
-- @needs  clock, collective, counter, device_state, file_count, gap, instant, kernel, load_check, lost_record_check, model_config
-- @needs  profile_file_check, rank_model, run_size_check, side_file_check, slice, step, text_for_dialect, trace
-- @column rank        BIGINT   Rank that the check is about.
-- @column check_name  VARCHAR  Name of the check.
-- @column value       BIGINT   What is in the database, or what was found.
-- @column total       BIGINT   What was in the file, or the whole that value is a part of.
-- @column ok          BOOLEAN  Whether the check holds; NULL if there is nothing to check.
-- @column note        VARCHAR  Meaning of value and total.
WITH kept AS (
    SELECT rank, COALESCE(cat, '') AS cat, COUNT(*) AS events, CAST(SUM(dur) AS BIGINT) AS dur
    FROM slice
    GROUP BY ALL
),
-- Host processes have no rank, so the counts of all of them are added.
counted AS (
    SELECT
        rank, phase, cat,
        CASE WHEN COUNT(events) = COUNT(*) THEN CAST(SUM(events) AS BIGINT) END AS events,
        CASE WHEN COUNT(dur) = COUNT(*) THEN CAST(SUM(dur) AS BIGINT) END AS dur
    FROM file_count
    GROUP BY rank, phase, cat
),
host AS (
    SELECT string_agg(parse_filename(path), ', ' ORDER BY path) AS files FROM trace WHERE rank IS NULL
),
slice_count AS (
    SELECT
        COALESCE(kept.rank, file_count.rank) AS rank,
        COALESCE(kept.cat, file_count.cat) AS cat,
        COALESCE(kept.events, 0) AS kept_events,
        COALESCE(kept.dur, 0) AS kept_dur,
        CASE WHEN file_count.cat IS NULL THEN 0 ELSE file_count.events END AS file_events,
        CASE WHEN file_count.cat IS NULL THEN 0 ELSE file_count.dur END AS file_dur
    FROM kept
    FULL JOIN (FROM counted WHERE phase = 'slice') AS file_count
        ON kept.rank IS NOT DISTINCT FROM file_count.rank AND kept.cat = file_count.cat
),
instant_count AS (
    SELECT
        counted.rank,
        CAST(SUM(counted.events) AS BIGINT) AS file_events,
        ANY_VALUE(kept_instant.events) AS kept_events
    FROM counted
    LEFT JOIN (SELECT rank, COUNT(*) AS events FROM instant GROUP BY rank) AS kept_instant
        ON counted.rank IS NOT DISTINCT FROM kept_instant.rank
    WHERE phase IN ('i', 'I', 'R', 'n')
    GROUP BY counted.rank
),
counter_count AS (
    SELECT counted.rank, counted.events AS file_events, COALESCE(kept.events, 0) AS kept_events
    FROM counted
    LEFT JOIN (SELECT rank, COUNT(*) AS events FROM counter GROUP BY rank) AS kept
        ON counted.rank IS NOT DISTINCT FROM kept.rank
    WHERE phase = 'counter'
),
gpu AS (
    SELECT
        rank,
        COUNT(*) AS kernels,
        COUNT(*) - COUNT(ts) AS untimed,
        COUNT(launch_id) AS launched,
        COUNT(step_id) AS in_step,
        CAST(SUM(dur) AS BIGINT) AS dur,
        CAST(COALESCE(SUM(dur) FILTER (category = 'other'), 0) AS BIGINT) AS other_dur
    FROM kernel
    GROUP BY rank
),
gap_total AS (SELECT rank, CAST(SUM(dur) AS BIGINT) AS dur FROM gap GROUP BY rank),
-- Steps that ran a model, whether it was recognized or not.
forward_step AS (
    SELECT DISTINCT step_id FROM kernel WHERE layer IS NOT NULL OR category IN ('kv_cache', 'attention')
),
forward AS (
    SELECT
        kernel.rank,
        CAST(SUM(kernel.dur) AS BIGINT) AS dur,
        CAST(COALESCE(SUM(kernel.dur) FILTER (kernel.role IS NULL AND kernel.layer IS NULL), 0) AS BIGINT) AS unknown_dur,
        CAST(COALESCE(SUM(kernel.dur) FILTER (kernel.layer IS NOT NULL), 0) AS BIGINT) AS layer_dur,
        CAST(COALESCE(SUM(kernel.dur) FILTER (kernel.role IS NULL AND kernel.layer IS NOT NULL), 0) AS BIGINT) AS roleless_dur,
        kernel.rank IN (SELECT rank FROM rank_model WHERE family IS NOT NULL) AS has_family
    FROM kernel
    INNER JOIN forward_step USING (step_id)
    GROUP BY kernel.rank
),
-- Ranks that serve a model: if it is not recognized, a check fails.
serving_rank AS (
    SELECT DISTINCT kernel.rank
    FROM kernel
    LEFT JOIN step USING (step_id)
    WHERE kernel.category = 'kv_cache' OR (kernel.category = 'attention' AND step.phase IS NOT NULL)
),
cache_writes AS (
    SELECT rank, COUNT(*) AS writes, COUNT(layer) AS attributed
    FROM kernel
    WHERE category = 'kv_cache'
    GROUP BY rank
),
device_total AS (
    SELECT
        rank,
        CAST(SUM(dur) AS BIGINT) AS window_ns,
        CAST(COALESCE(SUM(dur) FILTER (NOT (compute OR comm OR copy)), 0) AS BIGINT) AS idle_ns
    FROM device_state
    GROUP BY rank
),
entry AS (
    SELECT
        10 AS place, rank, 'events ' || cat AS check_name, kept_events AS value,
        file_events AS total, kept_events = file_events AS ok,
        'events in table slice; events in the file' AS note
    FROM slice_count
    UNION ALL
    SELECT
        20, rank, 'duration ' || cat, kept_dur, file_dur, kept_dur = file_dur,
        'total duration in table slice; total duration in the file, ns'
    FROM slice_count
    UNION ALL
    SELECT
        30, rank, 'instants', COALESCE(kept_events, 0), file_events,
        COALESCE(kept_events, 0) = file_events, 'events in table instant; events in the file'
    FROM instant_count
    UNION ALL
    SELECT
        30, rank, 'counters', kept_events, file_events, kept_events = file_events,
        'samples in table counter; samples in the file'
    FROM counter_count
    UNION ALL
    SELECT
        31, rank, 'phase ' || phase, 0, events, FALSE,
        'events loaded; events in the file (complete events, pairs of begin and end, instants, counters, flows and names are loaded)'
    FROM counted
    WHERE phase NOT IN ('slice', 'counter', 'i', 'I', 'R', 'n', 's', 't', 'f', 'M')
    UNION ALL
    SELECT 40, rank, check_name, value, total, ok, note FROM load_check
    UNION ALL
    SELECT
        50, rank, 'kernels with a launch', launched, kernels, NULL,
        'GPU activities whose launch call is in the file; all GPU activities'
    FROM gpu
    UNION ALL
    SELECT
        50, rank, 'activities with impossible times', untimed, kernels, FALSE,
        'GPU activities whose times cannot be, such as 0 or another year; all GPU activities. The profiler could not time them: they take no part in any time (kernel.ts is NULL; slice.ts is as recorded)'
    FROM gpu
    WHERE untimed > 0
    UNION ALL
    SELECT
        51, rank, 'kernels in a step', in_step, kernels, NULL,
        'GPU activities launched after the first step began; all GPU activities'
    FROM gpu
    UNION ALL
    SELECT
        60, rank, 'time classified other', other_dur, dur, other_dur * 100 <= dur,
        'kernel time that no rule classifies; all kernel time, ns (at most 1%)'
    FROM gpu
    UNION ALL
    SELECT
        61, rank, 'time without a layer or role', unknown_dur, dur,
        CASE WHEN rank IN (FROM serving_rank) THEN unknown_dur * 200 <= dur END,
        'GPU time without a layer or role; all GPU time in steps that ran a model, ns (at most 0.5% if the rank serves a model)'
    FROM forward
    UNION ALL
    SELECT
        62, rank, 'time in layers without a role', roleless_dur, layer_dur,
        CASE
            WHEN has_family AND rank IN (FROM serving_rank) THEN roleless_dur * 200 <= layer_dur
        END,
        'GPU time of kernels with a layer, but no role; GPU time of kernels with a layer, ns ('
        || CASE
            WHEN has_family THEN 'at most 0.5% if the rank serves a model)'
            ELSE 'not checked: no family is known, and the kind and place of a kernel do not always tell its role)'
        END
    FROM forward
    WHERE layer_dur > 0
    UNION ALL
    SELECT
        62, rank, 'time in layers', layer_dur, dur, NULL,
        'GPU time of kernels with a layer; all GPU time in steps that ran a model, ns'
    FROM forward
    UNION ALL
    SELECT
        63, rank, 'layers attributed', attributed, writes, attributed > 0,
        'KV-cache writes with a layer; all KV-cache writes, one per layer and forward pass (more than 0)'
    FROM cache_writes
    UNION ALL
    SELECT
        64, rank_model.rank, 'layers of the model',
        CASE WHEN split.known THEN held.layers ELSE rank_model.layers END, model_config.layers,
        CASE WHEN split.known THEN held.layers = model_config.layers END,
        CASE
            WHEN split.known THEN 'layers found on all stages (' || COALESCE(rank_model.family, 'family unknown') || '; pipeline stages: '
                || rank_model.source || '); layers in the model configuration'
            ELSE 'layers found on this rank (' || COALESCE(rank_model.family, 'family unknown') || '; ' || rank_model.source
                || CASE WHEN rank_model.first_layer IS NULL THEN ', so its layers count from 0' ELSE '' END
                || '); layers in the model configuration'
        END
    FROM rank_model
    CROSS JOIN (
        SELECT COALESCE(BOOL_AND(stage < stages) AND COUNT(DISTINCT stage) = MAX(stages), FALSE) AS known
        FROM rank_model
    ) AS split
    CROSS JOIN (
        SELECT CAST(SUM(layers) AS BIGINT) AS layers
        FROM (SELECT stage, ANY_VALUE(layers) AS layers FROM rank_model GROUP BY stage)
    ) AS held
    LEFT JOIN model_config ON TRUE
    UNION ALL
    SELECT
        64, gpu.rank, 'layers of the model', named.layers, model_config.layers,
        COALESCE(named.layers = model_config.layers, FALSE),
        CASE WHEN named.layers IS NULL THEN 'no model was recognized' ELSE 'layers that modules name' END
        || '; layers in the model configuration (' || model_config.model_type || ')'
    FROM gpu
    CROSS JOIN model_config
    LEFT JOIN (SELECT rank, COUNT(DISTINCT layer) AS layers FROM kernel WHERE layer IS NOT NULL GROUP BY rank) AS named
        ON gpu.rank = named.rank
    WHERE gpu.rank NOT IN (SELECT rank FROM rank_model)
    UNION ALL
    SELECT
        65, rank_model.rank, 'model family', NULL, NULL,
        CASE
            WHEN rank_model.family IS NOT NULL OR len(model_config.families) > 0
                THEN COALESCE(list_contains(model_config.families, rank_model.family), FALSE)
        END,
        CASE
            WHEN rank_model.family IS NOT NULL
                THEN 'family recognized: ' || rank_model.family || '; model_type configured: ' || model_config.model_type
            WHEN len(model_config.families) > 0
                THEN 'the layers do not fit the family ' || list_aggregate(model_config.families, 'string_agg', ', ')
                || ' of the configured model_type ' || model_config.model_type || '; '
            WHEN model_config.model_type IS NOT NULL
                THEN 'no family is known for the configured model_type ' || model_config.model_type || '; '
            ELSE 'the layers fit no known family; '
        END
        || CASE WHEN rank_model.family IS NULL THEN 'roles follow from the kinds and places of kernels' ELSE '' END
    FROM rank_model
    LEFT JOIN model_config ON TRUE
    WHERE rank_model.family IS NULL OR model_config.model_type IS NOT NULL
    UNION ALL
    SELECT
        66, rank, 'operations matched', COUNT(match_id), COUNT(*), NULL,
        'operations that were found on another rank too; all operations of more than one rank'
    FROM collective
    WHERE group_size IS DISTINCT FROM 1
    GROUP BY rank
    UNION ALL
    SELECT
        67, rank, 'operations with bytes', COUNT(bytes), COUNT(*), NULL,
        'operations whose size is known or inferred; all operations of more than one rank'
    FROM collective
    WHERE group_size IS DISTINCT FROM 1
    GROUP BY rank
    UNION ALL
    SELECT
        67, rank, 'operations waited for by all ranks', COUNT(*) FILTER (wait_source = 'ranks'), COUNT(*), NULL,
        'operations whose wait time comes from the starts on all their ranks; all operations of more than one rank; '
        || 'not all ranks of their communicator (of up to ' || COALESCE(CAST(MAX(group_size) AS VARCHAR), 'unknown')
        || ' ranks) are loaded, so that ' || COUNT(*) FILTER (wait_source = 'planes')
        || ' have it from the planes of their own device'
    FROM collective
    WHERE group_size IS DISTINCT FROM 1
    GROUP BY rank
    HAVING COUNT(*) FILTER (wait_source = 'planes') > 0
    UNION ALL
    SELECT
        68, rank, 'clock', offset_ns, residual_ns, NULL,
        'offset from the reference clock, ns; error that remains after the correction, ns; source: ' || source
    FROM clock
    WHERE (SELECT COUNT(rank) FROM trace) > 1
    UNION ALL
    SELECT
        70, rank, 'idle in gaps', COALESCE(gap_total.dur, 0), device_total.idle_ns,
        COALESCE(gap_total.dur, 0) = device_total.idle_ns,
        'total duration of the gaps; idle time of time.breakdown, ns'
    FROM device_total
    LEFT JOIN gap_total USING (rank)
    UNION ALL
    SELECT place, rank, check_name, value, total, ok, note FROM lost_record_check
    UNION ALL
    SELECT place, rank, check_name, value, total, ok, note FROM side_file_check
    UNION ALL
    SELECT place, rank, check_name, value, total, ok, note FROM run_size_check
    UNION ALL
    SELECT place, rank, check_name, value, total, ok, note FROM profile_file_check
)
SELECT
    entry.rank, entry.check_name, entry.value, entry.total, entry.ok,
    text_for_dialect(trace.dialect, entry.note)
    || CASE WHEN entry.rank IS NULL AND entry.place < 40 THEN '; of host processes: ' || host.files ELSE '' END AS note
FROM entry
LEFT JOIN trace ON entry.rank = trace.rank
CROSS JOIN host
ORDER BY entry.rank, entry.place, entry.check_name
