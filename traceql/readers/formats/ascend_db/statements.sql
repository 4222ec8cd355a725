-- noqa: disable=CP02
-- The statements about a database, for the ledger.

INSERT INTO task_total
SELECT
    (SELECT COUNT(*) FROM TASK), COUNT(*) FILTER (category IN ('kernel', 'gpu_memcpy')), (SELECT COUNT(*) FROM MEMCPY_INFO),
    (SELECT COUNT(*) FROM MEMCPY_INFO WHERE size < 0), COUNT(*) FILTER (category = 'npu_event' AND is_wait_of_profiler),
    (
        SELECT COUNT(*) FROM TASK
        WHERE
            is_captured(modelId)
            AND (TASK.rowid IN (FROM undescribed) OR globalTaskId IN (SELECT globalTaskId FROM described))
    ),
    COUNT(*) FILTER (category = 'kernel'), (SELECT COUNT(*) FROM CANN_API), (SELECT COUNT(opId) FROM COMMUNICATION_TASK_INFO),
    (SELECT COUNT(*) FROM COMMUNICATION_TASK_INFO SEMI JOIN COMMUNICATION_OP USING (opId))
FROM event LEFT JOIN text ON text.id = name_id;

INSERT INTO task_type
SELECT COALESCE(text.value, ''), COUNT(*)
FROM TASK ANTI JOIN COMPUTE_TASK_INFO USING (globalTaskId) ANTI JOIN COMMUNICATION_TASK_INFO USING (globalTaskId)
LEFT JOIN text ON text.id = taskType WHERE endNs > startNs GROUP BY ALL;

-- The sums of the profiler. A task belongs whole to the step in which it starts; without steps, all are in one.
CREATE TABLE known_sum AS
SELECT step_sum.place, name, CAST(round_even(us * 1000, 0) AS BIGINT) AS ns, span.ts, span.end_ts
FROM step_sum LEFT JOIN span USING (step) WHERE step = '' OR span.ts IS NOT NULL;

INSERT INTO busy
WITH step_window AS (
    SELECT -1 AS scope, NULL AS ts, NULL AS end_ts WHERE EXISTS (FROM OVERLAP_ANALYSIS)
    UNION ALL
    SELECT DISTINCT place, ts, end_ts FROM known_sum
)
SELECT scope, category = 'kernel', event.ts, dur FROM event LEFT JOIN text ON text.id = name_id
INNER JOIN step_window AS step ON event.ts >= COALESCE(step.ts, 0) AND event.ts < COALESCE(step.end_ts, 9223372036854775807)
WHERE category = 'communication' OR (category = 'kernel' AND is_communication_kernel IS NOT TRUE);

INSERT INTO statement
WITH kind AS (SELECT UNNEST(['Computing', 'Communication', 'Communication(Not Overlapped)', 'Free']) AS name),

compared AS (
    SELECT
        kind.name, COALESCE(own_sum.ns, 0) AS own_ns, known_sum.ns,
        abs(own_ns - known_sum.ns) <= IF(kind.name = 'Free', 250, 0) AS is_equal
    FROM kind INNER JOIN known_sum USING (name)
    LEFT JOIN own_sum ON own_sum.scope = known_sum.place AND own_sum.name = kind.name
)
SELECT
    'overlap analysis: ' || kind.name, COALESCE(MIN(own_sum.ns), 0) AS own_ns,
    CAST(COALESCE(SUM(dur) FILTER (event.name = kind.name), 0) AS BIGINT) AS analysed_ns, own_ns = analysed_ns, NULL
FROM kind INNER JOIN event ON category = 'overlap_analysis' LEFT JOIN own_sum ON own_sum.scope = -1 AND own_sum.name = kind.name
GROUP BY kind.name
UNION ALL
SELECT
    'steps of analysis.db: ' || name, CAST(SUM(own_ns) AS BIGINT), CAST(SUM(ns) AS BIGINT),
    CASE WHEN BOOL_AND(is_equal) THEN TRUE WHEN COUNT(*) = 1 THEN FALSE END, COUNT(*) FILTER (is_equal) || ' of ' || COUNT(*)
FROM compared GROUP BY name
UNION ALL
SELECT 'operations of analysis.db', equal.events, COUNT(*), equal.events = COUNT(*), NULL
FROM analysed
INNER JOIN (
    SELECT COUNT(*) FILTER (EXISTS (
        FROM analysed WHERE analysed.name = COALESCE(text_of(name_id), 'None') AND abs(event.dur - analysed.ns) <= 1
    )) AS events
    FROM event WHERE category = 'communication' HAVING COUNT(*) > 0
) AS equal ON TRUE
GROUP BY equal.events;

INSERT INTO statement
-- Rows that no table can hold, and values that count as NULL.
SELECT 'rows of ' || table_name || ' without a time', COUNT(*), table_rows, FALSE, NULL
FROM event_row
INNER JOIN input ON table_name = [
    'PYTORCH_API', 'CANN_API', 'MSTX_EVENTS', 'STEP_TIME', 'TASK', 'COMMUNICATION_OP', 'COMMUNICATION_TASK_INFO', 'OVERLAP_ANALYSIS'
][source + 1]
WHERE NOT (is_time(startNs) AND is_time(endNs) AND endNs >= startNs) GROUP BY table_name, table_rows
UNION ALL
SELECT
    'values of ' || table_name, CAST(SUM(filled - read) AS BIGINT), table_rows, FALSE,
    'values that are not integers and count as unknown; rows. They are in: '
    || string_agg(column_name || ' ' || (filled - read), ', ' ORDER BY column_name)
FROM input_column
WHERE type = 'BIGINT' AND filled > read AND NOT starts_with(table_name, 'ENUM') AND table_name <> 'STRING_IDS'
GROUP BY table_name, table_rows
UNION ALL
SELECT 'compute tasks without a description', COUNT(*), (SELECT kernels FROM task_total), FALSE, NULL
FROM undescribed HAVING COUNT(*) > 0
UNION ALL
SELECT 'compute tasks without a task', COUNT(*), (SELECT COUNT(*) FROM COMPUTE_TASK_INFO), FALSE, NULL
FROM COMPUTE_TASK_INFO ANTI JOIN TASK USING (globalTaskId) HAVING COUNT(*) > 0
UNION ALL
SELECT 'devices in the file', COUNT(DISTINCT deviceId) AS devices, devices, NULL, NULL FROM TASK HAVING devices > 1
UNION ALL
SELECT
    'parts of communication', 0, 0, NULL, 'the profile has no parts of its ' || format('{:,}', COUNT(*))
    || ' operations of communication (table COMMUNICATION_TASK_INFO), so that it is unknown how long they waited, and for whom'
FROM COMMUNICATION_OP HAVING COUNT(*) > 0 AND NOT EXISTS (FROM COMMUNICATION_TASK_INFO)
UNION ALL
SELECT 'shapes of operators', 1, 1, NULL, NULL FROM swapped WHERE is_swapped
UNION ALL
SELECT 'allocations of other allocators', 0, COUNT(*), NULL, NULL
FROM OP_MEMORY WHERE streamPtr IS NULL AND has_streams() HAVING COUNT(*) > 0
UNION ALL
FROM task_statements();
