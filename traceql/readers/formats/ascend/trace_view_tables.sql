-- noqa: disable=AL05
-- The tables of the contract, after the events have parents: nested (index, parent, depth).

-- The events in which arrows to activities begin, of which several at one time count as the last one. Of arrows of CANN, from calls to
-- tasks whose number no call has: the innermost call. Of those of PyTorch: the innermost operator of a library (`aten::mm`), else the
-- innermost one.
CREATE TABLE origin AS
WITH RECURSIVE caller AS (
    SELECT 'HostToDevice' AS kind, index, track, ts, dur, connection FROM event WHERE process = 'CANN' AND connection IS NOT NULL
    UNION ALL
    SELECT 'async_npu', index, track, ts, dur, NULL FROM event WHERE category = 'cpu_op'
),
begun AS (SELECT kind, track, ts, arg_max(index, {'shortest': -dur, 'index': index}) AS caller FROM caller GROUP BY ALL),

task AS (
    SELECT kind, track, ts, MAX(index) AS index FROM event CROSS JOIN (VALUES ('HostToDevice'), ('async_npu')) AS arrow (kind)
    WHERE is_activity
        AND (kind = 'async_npu' OR connection IS NULL OR connection NOT IN (SELECT connection FROM caller WHERE connection IS NOT NULL))
    GROUP BY ALL
),
start AS (
    SELECT kind, arrow, arg_max(track, place) AS track, arg_max(ts, place) AS ts FROM arrow_end WHERE phase = 's' GROUP BY ALL
),
arrow AS (
    SELECT kind, place, task.index, start.track, start.ts
    FROM arrow_end INNER JOIN task USING (kind, track, ts) INNER JOIN start USING (kind, arrow) WHERE phase = 'f'
),
around AS (
    SELECT arrow.kind, place, index, arrow.ts, caller, 0 AS step
    FROM arrow ASOF JOIN begun ON arrow.kind = begun.kind AND arrow.track = begun.track AND arrow.ts >= begun.ts
    UNION ALL
    SELECT kind, place, around.index, ts, parent, step + 1
    FROM around INNER JOIN nested ON nested.index = caller WHERE parent IS NOT NULL
),
innermost AS (
    SELECT kind, place, around.index, arg_min(caller, {'is_part': kind = 'async_npu' AND NOT contains(called, '::'), 'step': step}) AS event
    FROM around INNER JOIN event ON event.index = caller
    WHERE event.ts + event.dur >= around.ts AND IF(kind = 'async_npu', category = 'cpu_op', connection IS NOT NULL) GROUP BY ALL
)
SELECT kind, index, arg_max(event, place) AS event, list(event) AS events FROM innermost GROUP BY ALL;

-- The parts on planes that belong to an operation. The planes of a group have the numbers after that of its own thread; a part belongs
-- to the operation of its group during which it began.
CREATE TABLE part AS
WITH thread AS (SELECT DISTINCT track, pid, COALESCE(tid_number, -1) AS tid FROM event INNER JOIN track USING (track) WHERE category = 'communication'),

plane AS (
    SELECT track.track, arg_max(thread.track, thread.tid) AS thread
    FROM track INNER JOIN thread ON track.pid IS NOT DISTINCT FROM thread.pid AND thread.tid < COALESCE(track.tid_number, -1)
    GROUP BY track.track
),
operation AS (SELECT track AS thread, ts, MAX(index) AS index FROM event WHERE category = 'communication' GROUP BY track, ts)

SELECT event.index, operation.index AS operation
FROM event INNER JOIN plane USING (track) ASOF JOIN operation ON plane.thread = operation.thread AND event.ts >= operation.ts
INNER JOIN event AS whole ON whole.index = operation.index
WHERE event.category = 'communication_task' AND event.ts <= whole.ts + whole.dur;

CREATE VIEW slice AS
WITH own AS (
    SELECT event.index, COALESCE(call.connection, event.connection) AS connection FROM event
    LEFT JOIN origin ON origin.index = event.index AND origin.kind = 'HostToDevice' LEFT JOIN event AS call ON call.index = origin.event
)
SELECT
    event.index, category AS cat, name, ts, dur, pid_number AS pid, tid_number AS tid, event.track, nested.parent, nested.depth,
    COALESCE(origin.event, operator.index) AS external_id,
    IF(part.index IS NULL, own.connection, whole.connection) AS correlation, argument.args
FROM event INNER JOIN track USING (track) INNER JOIN own USING (index) INNER JOIN argument USING (index) INNER JOIN nested USING (index)
LEFT JOIN origin ON origin.index = event.index AND origin.kind = 'async_npu'
LEFT JOIN (SELECT DISTINCT UNNEST(events) AS index FROM origin WHERE kind = 'async_npu') AS operator ON operator.index = event.index
LEFT JOIN part ON part.index = event.index LEFT JOIN own AS whole ON part.operation = whole.index ORDER BY event.index;

-- Where activities ran: an operation of communication on the stream of its first task.
CREATE VIEW activity AS
WITH task AS (
    SELECT connection, arg_min(stream, index) AS stream, MIN(index) AS index
    FROM (SELECT index, connection, {'stream': stream} AS stream FROM event WHERE category = 'npu_task' AND connection IS NOT NULL)
    GROUP BY connection
)
SELECT
    event.index, COALESCE(number_in(track.label), getvariable('device'), 0) AS device,
    COALESCE(CASE WHEN category = 'communication' THEN task.stream.stream END, event.stream) AS stream, bytes,
    CAST(NULL AS INTEGER[]) AS grid, CAST(NULL AS INTEGER[]) AS block, CAST(NULL AS BIGINT) AS graph_node_id
FROM event INNER JOIN track USING (track) LEFT JOIN task USING (connection) WHERE is_activity ORDER BY event.index;

-- Samples of the files, at the start of their step where they are sums of one. Those hours away from the events have a wrong time.
CREATE TABLE side_sample AS
WITH extent AS (SELECT MIN(ts) AS first_ts, MAX(ts + dur) AS last_ts FROM event),
step AS (SELECT called, arg_max(ts, index) AS ts FROM event WHERE category = 'user_annotation' GROUP BY called)
SELECT place, sample.name, unit, COALESCE(sample.ts, step.ts, first_ts) AS ts, value
FROM sample CROSS JOIN extent LEFT JOIN step ON called = 'ProfilerStep#' || sample.step
WHERE COALESCE(sample.ts, step.ts, first_ts) - first_ts > -3600000000000 AND COALESCE(sample.ts, step.ts, first_ts) - last_ts < 3600000000000;

-- Samples: one for each number in the arguments of a counter event, then those of the files beside the trace.
CREATE VIEW counter AS
WITH number AS (
    SELECT place, name, ts, track, id, key, value, TRY_CAST(value AS DOUBLE) AS number
    FROM counter_event, json_each(counter_event.args)
    WHERE json_type(counter_event.args) = 'OBJECT' AND type IN ('UBIGINT', 'BIGINT', 'HUGEINT', 'UHUGEINT', 'DOUBLE') AND isfinite(number)
),
named AS (
    SELECT
        number.*, number.name || COALESCE(' (acc_id ' || part.value || ')', '') AS event,
        COUNT(*) OVER (PARTITION BY number.place) AS numbers
    FROM number LEFT JOIN number AS part ON part.place = number.place AND part.key = 'acc_id'
    WHERE number.key <> 'acc_id'
),
sampled AS (
    SELECT
        0 AS source, place, id, IF(numbers = 1, event, event || ' ' || key) AS name,
        CASE WHEN regexp_matches(key, '\([^()]*\)$') THEN regexp_extract(key, '\(([^()]*)\)$', 1) WHEN key IN ('MHz', 'KB', 'MB', 'GB', 'B', '%', 'mV', 'us') THEN key END AS unit,
        ts, number AS value, track
    FROM named
    UNION ALL
    SELECT 1, place, 0, name, unit, ts, value, getvariable('files_track') FROM side_sample
)
SELECT name, unit, ts, value, track FROM sampled ORDER BY source, place, id;

-- The events of the file by kind and category, counted in another way than the tables are filled: arguments are searched as text.
CREATE VIEW count AS
SELECT
    'slice' AS phase,
    IF(
        carries, 'npu_task',
        category_of(
            event.process, thread, COALESCE(cat, ''), called, regexp_extract(args, '"(?:Task Type|level)"\s*:\s*"([^"]*)"', 1)
        )
    ) AS cat,
    COUNT(*) AS events, CAST(SUM(counted_dur) AS BIGINT) AS dur
FROM event INNER JOIN track USING (track) GROUP BY ALL
UNION ALL
SELECT phase, '', events, 0 FROM phase_count
UNION ALL
SELECT 'counter', '', samples, 0
FROM (
    SELECT (SELECT COUNT(*) FROM cell WHERE cell NOT IN ('', 'N/A')) + COALESCE(SUM(len(list_filter(regexp_extract_all(args, '"([^"\\]*)"\s*:\s*-?[0-9]', 1), lambda key: key <> 'acc_id'))), 0) AS samples
    FROM counter_event
)
WHERE samples > 0;

INSERT INTO busy
SELECT 0, category = 'kernel', ts, dur
FROM event WHERE category = 'communication' OR (category = 'kernel' AND NOT is_communication_kernel(called));

INSERT INTO task_total
SELECT
    COUNT(*) FILTER (process = 'Ascend Hardware'),
    COUNT(*) FILTER (process = 'Ascend Hardware' AND category IN ('kernel', 'gpu_memcpy')),
    COUNT(*) FILTER (category = 'gpu_memcpy'), COUNT(*) FILTER (category = 'gpu_memcpy' AND size IS NOT NULL AND bytes IS NULL),
    COUNT(*) FILTER (process = 'Ascend Hardware' AND (starts_with(called, 'MEM_WAIT_VALUE') OR starts_with(called, 'CAPTURE_WAIT'))),
    COUNT(*) FILTER (process = 'Ascend Hardware' AND category IN ('kernel', 'gpu_memcpy') AND is_captured(model)),
    COUNT(*) FILTER (category = 'kernel'), COUNT(*) FILTER (process = 'CANN'), COUNT(*) FILTER (category = 'communication_task'),
    (SELECT COUNT(*) FROM part)
FROM event;

INSERT INTO task_type
SELECT COALESCE(task_type, ''), COUNT(*)
FROM event WHERE process = 'Ascend Hardware' AND category = 'npu_task' AND dur > 0 AND NOT carries GROUP BY ALL;

-- The sums of the profiler: of its own track, and of a file with one step, which then is the whole trace.
INSERT INTO statement
WITH own AS (
    SELECT name, COALESCE(ns, 0) AS ns
    FROM (SELECT UNNEST(['Computing', 'Communication', 'Communication(Not Overlapped)', 'Free']) AS name)
    LEFT JOIN own_sum USING (name)
),
analysed AS (
    SELECT called AS name, CAST(SUM(dur) AS BIGINT) AS ns, COUNT(*) AS intervals
    FROM event WHERE category = 'overlap_analysis' GROUP BY called
)
SELECT 'overlap analysis: ' || name, own.ns, analysed.ns, abs(own.ns - analysed.ns) <= intervals + 1, NULL
FROM own INNER JOIN analysed USING (name)
UNION ALL
SELECT
    'step_trace_time.csv: ' || name, own.ns, CAST(round_even(us * 1000, 0) AS BIGINT) AS step_ns,
    abs(own.ns - step_ns) <= (SELECT COUNT(*) FROM event WHERE category IN ('kernel', 'communication')) + 250, NULL
FROM own INNER JOIN step_sum USING (name) WHERE abs(us) < 1125899906842624;

INSERT INTO statement
-- The times of operations, as communication.json has them.
WITH listed AS (
    SELECT elapse_ms, COUNT(event.index) > 0 AS is_known, COALESCE(BOOL_OR(abs(event.dur - elapse_ms * 1e6) <= 1), FALSE) AS is_equal
    FROM operation LEFT JOIN event ON event.category = 'communication' AND event.called = operation.name
    GROUP BY operation.rowid, elapse_ms
)
SELECT 'elapse times in communication.json', COUNT(*) FILTER (is_equal), COUNT(*), BOOL_AND(is_equal), NULL
FROM listed WHERE is_known HAVING COUNT(*) > 0
UNION ALL
SELECT 'transit times in communication.json', COUNT(*) FILTER (transit_ms <> 0), COUNT(*), NULL, NULL
FROM operation HAVING COUNT(*) > 0
UNION ALL
SELECT
    'kernel_details.csv', COUNT(event_detail.index) AS joined, COUNT(*), CASE WHEN COUNT(*) = joined THEN TRUE END,
    IF(COUNT(*) > COUNT(start_ns), '. ' || format('{:,}', COUNT(*) - COUNT(start_ns)) || ' rows have a start that is no time', '')
    || IF(COUNT(start_ns) > 0 AND joined = 0, '. None fits: the file is of another recording', '')
FROM kernel_detail LEFT JOIN event_detail USING (place) HAVING COUNT(*) > 0
UNION ALL
SELECT 'no track Ascend Hardware', 0, COUNT(task_type), FALSE, NULL
FROM event HAVING COUNT(task_type) > 0 AND COUNT(*) FILTER (process = 'Ascend Hardware') = 0
UNION ALL
FROM task_statements();
