-- What was in each file against what is in the database. ok is NULL where nothing is to be proven.

CREATE OR REPLACE TABLE ledger AS
WITH kept AS (
    SELECT rank, COALESCE(cat, '') AS cat, COUNT(*) AS events, CAST(SUM(dur) AS BIGINT) AS dur
    FROM slice
    GROUP BY ALL
),
slice_count AS (
    SELECT
        rank,
        COALESCE(kept.cat, file_count.cat) AS cat,
        COALESCE(kept.events, 0) AS kept_events,
        COALESCE(kept.dur, 0) AS kept_dur,
        COALESCE(file_count.events, 0) AS file_events,
        COALESCE(file_count.dur, 0) AS file_dur
    FROM kept
    FULL JOIN (FROM file_count WHERE phase = 'slice') AS file_count USING (rank, cat)
),
instant_count AS (
    SELECT
        rank,
        CAST(SUM(file_count.events) AS BIGINT) AS file_events,
        ANY_VALUE(kept_instant.events) AS kept_events
    FROM file_count
    LEFT JOIN (SELECT rank, COUNT(*) AS events FROM instant GROUP BY rank) AS kept_instant
        USING (rank)
    WHERE phase IN ('i', 'I', 'R', 'n')
    GROUP BY rank
),
gpu AS (
    SELECT
        rank,
        COUNT(*) AS kernels,
        COUNT(launch_id) AS launched,
        COUNT(step_id) AS in_step,
        CAST(SUM(dur) AS BIGINT) AS dur,
        CAST(COALESCE(SUM(dur) FILTER (category = 'other'), 0) AS BIGINT) AS other_dur
    FROM kernel
    GROUP BY rank
),
gap_total AS (
    SELECT rank, CAST(SUM(dur) AS BIGINT) AS dur FROM gap GROUP BY rank
),
-- Steps that ran layers, and the time of them that has no role.
forward_step AS (
    SELECT DISTINCT step_id FROM kernel WHERE layer IS NOT NULL
),
forward AS (
    SELECT
        kernel.rank,
        CAST(SUM(kernel.dur) AS BIGINT) AS dur,
        CAST(COALESCE(SUM(kernel.dur) FILTER (kernel.role IS NULL AND kernel.layer IS NULL), 0) AS BIGINT) AS unknown_dur,
        CAST(COALESCE(SUM(kernel.dur) FILTER (kernel.layer IS NOT NULL), 0) AS BIGINT) AS layer_dur
    FROM kernel
    INNER JOIN forward_step USING (step_id)
    GROUP BY kernel.rank
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
        10 AS place, rank, 'events ' || cat AS "check", kept_events AS value,
        file_events AS total, kept_events = file_events AS ok,
        'events in slice; in the file' AS note
    FROM slice_count
    UNION ALL
    SELECT
        20, rank, 'duration ' || cat, kept_dur, file_dur, kept_dur = file_dur,
        'summed duration in slice; in the file, ns'
    FROM slice_count
    UNION ALL
    SELECT
        30, rank, 'instants', COALESCE(kept_events, 0), file_events,
        COALESCE(kept_events, 0) = file_events, 'events in instant; in the file'
    FROM instant_count
    UNION ALL
    SELECT
        31, rank, 'phase ' || phase, 0, events, FALSE,
        'events of a phase that is not loaded (only complete events, instants, flows and names are)'
    FROM file_count
    WHERE phase NOT IN ('slice', 'i', 'I', 'R', 'n', 's', 't', 'f', 'M')
    UNION ALL
    SELECT 40, rank, "check", value, total, ok, note FROM remark
    UNION ALL
    SELECT
        50, rank, 'kernels with a launch', launched, kernels, NULL,
        'GPU activities whose runtime or driver call is in the file'
    FROM gpu
    UNION ALL
    SELECT
        51, rank, 'kernels in a step', in_step, kernels, NULL,
        'GPU activities launched after the first step began'
    FROM gpu
    UNION ALL
    SELECT
        60, rank, 'time classified other', other_dur, dur, other_dur * 100 <= dur,
        'kernel time that no rule classifies; all kernel time, ns; at most 1%'
    FROM gpu
    UNION ALL
    SELECT
        61, rank, 'time without a layer or role', unknown_dur, dur, 
        CASE WHEN rank IN (SELECT rank FROM rank_model) THEN unknown_dur * 200 <= dur END,
        'GPU time in forward passes of which neither is known; all of it, ns; at most 0.5%'
    FROM forward
    UNION ALL
    SELECT
        62, rank, 'time in layers', layer_dur, dur, NULL,
        'GPU time of kernels whose model layer is known; all time in forward passes, ns'
    FROM forward
    UNION ALL
    SELECT
        63, rank, 'layers attributed', attributed, writes, NULL,
        'KV-cache writes whose layer is known; KV-cache writes, one per layer and forward pass'
    FROM cache_writes
    UNION ALL
    SELECT
        64, rank_model.rank, 'layers of the model', held.layers, model_config.layers,
        held.layers = model_config.layers,
        'layers found on all stages (' || rank_model.family || ', stage by ' || rank_model.source
        || '); in the configuration given'
    FROM rank_model
    CROSS JOIN (
        SELECT CAST(SUM(layers) AS BIGINT) AS layers
        FROM (SELECT stage, ANY_VALUE(layers) AS layers FROM rank_model GROUP BY stage)
    ) AS held
    LEFT JOIN model_config ON TRUE
    UNION ALL
    SELECT
        65, rank_model.rank, 'model family', NULL, NULL,
        list_contains(model_config.families, rank_model.family),
        'recognised ' || rank_model.family || '; configured ' || model_config.model_type
    FROM rank_model
    INNER JOIN model_config ON TRUE
    UNION ALL
    SELECT
        70, rank, 'idle in gaps', COALESCE(gap_total.dur, 0), device_total.idle_ns,
        COALESCE(gap_total.dur, 0) = device_total.idle_ns,
        'summed gaps; idle time of the breakdown, ns'
    FROM device_total
    LEFT JOIN gap_total USING (rank)
)
SELECT rank, "check", value, total, ok, note
FROM entry
ORDER BY rank, place, "check";

COMMENT ON TABLE ledger IS 'One row per rank and quality check.';
COMMENT ON COLUMN ledger.rank IS 'Rank that it is about.';
COMMENT ON COLUMN ledger."check" IS 'What was checked.';
COMMENT ON COLUMN ledger.value IS 'What is in the database, or what was found.';
COMMENT ON COLUMN ledger.total IS 'What was in the file, or out of how much.';
COMMENT ON COLUMN ledger.ok IS 'Whether it is as it should be; NULL where there is nothing to prove.';
COMMENT ON COLUMN ledger.note IS 'What value and total are.';
