-- One slice over the whole run per finding, above all ranks, and one where it shows best if it has
-- such a place. An arrow connects the two.
WITH run AS (
    SELECT MIN(ts) AS ts, MAX(ts + GREATEST(dur, 0)) AS end_ts FROM slice
),
file AS (
    SELECT parse_filename(path) AS name FROM duckdb_databases() WHERE database_name = current_database()
),
found AS (
    SELECT
        finding.*,
        ['traceql', 'run', finding.query, file.name] || flatten(list_transform(
            map_entries(finding.parameters), lambda entry: ['--' || entry['key'], entry['value']]
        )) AS command
    FROM finding
    CROSS JOIN file
),
placed AS (
    SELECT found.*, -1 AS shown_rank, run.ts AS shown_ts, run.end_ts - run.ts AS shown_dur, headline AS name
    FROM found
    CROSS JOIN run
    UNION ALL
    SELECT found.*, rank, ts, COALESCE(dur, 0), title
    FROM found
    WHERE rank IS NOT NULL AND ts IS NOT NULL
)
SELECT
    shown_rank AS rank,
    'Findings' AS track,
    shown_ts AS ts,
    shown_dur AS dur,
    'finding' AS cat,
    name,
    severity AS colour,
    CASE WHEN ts IS NOT NULL THEN 1099511627776 + rank_order END AS flow, -- higher than a collective's
    NULLIF(title, name) AS title,
    NULLIF(headline, name) AS headline,
    severity, cause, array_to_string(evidence, ' ') AS evidence, saving_ns, saving_low_ns, saving_high_ns, gain_pct,
    unknowns,
    array_to_string([ -- as a shell reads them
        CASE
            WHEN regexp_full_match(word, '[\w@%+=:,./-]+') THEN word
            ELSE '''' || replace(word, '''', '''"''"''') || ''''
        END FOR word IN command
    ], ' ') AS see,
    remedy AS try,
    'SELECT * FROM finding WHERE rank_order = ' || rank_order AS sql
FROM placed
ORDER BY 1, 3, 4 DESC, rank_order
