-- noqa: disable=AM04
-- What the events of a trace_view.json are, with the rows of the files beside it that belong to them.
--
-- Inputs, all made by read.py: parsed, track, arrow_end, counter_event; side_row (cells of CSV files), operation.

-- Microseconds in nanoseconds, exactly, and numbers: NULL if a cell is neither.
CREATE MACRO ns_of_us(cell) AS CASE
    WHEN abs(TRY_CAST(cell AS DECIMAL(38, 9))) < 4611686018427387 THEN CAST(TRY_CAST(cell AS DECIMAL(38, 9)) * 1000 AS BIGINT)
END;
CREATE MACRO number_of(cell) AS CASE WHEN isfinite(TRY_CAST(cell AS DOUBLE)) THEN TRY_CAST(cell AS DOUBLE) END;

-- Rows of kernel_details.csv, whose columns have other names in other versions; `members` are arguments as JSON without braces.
CREATE MACRO detail(name, cell) AS CASE
    WHEN cell NOT IN ('', 'N/A') THEN '"' || name || '": '
        || IF(regexp_full_match(cell, '\d{1,18}'), CAST(CAST(cell AS BIGINT) AS VARCHAR), CAST(to_json(trim(cell, '"')) AS VARCHAR))
END;
CREATE TABLE kernel_detail AS
SELECT
    place, ns_of_us(COALESCE(cells['Start Time(us)'], cells['Start Time'])) AS start_ns, COALESCE(cells['Name'], '') AS name,
    concat_ws(
        ', ', detail('Type', cells['Type']), detail('Accelerator Core', cells['Accelerator Core']),
        COALESCE(detail('Block Dim', cells['Block Num']), detail('Block Dim', cells['Block Dim'])),
        detail('Input Shapes', cells['Input Shapes']), detail('Input Data Types', cells['Input Data Types']),
        detail('Output Shapes', cells['Output Shapes']), detail('Output Data Types', cells['Output Data Types'])
    ) AS members
FROM side_row WHERE file = 'kernel_details.csv';

-- Cells of the other files: memory in use, and the profiler's sums of each step, whose time is that of the step.
CREATE TABLE cell AS
SELECT *, file = 'step_trace_time.csv' AS is_step, entry.key AS name, entry.value AS cell
FROM (
    SELECT *, UNNEST(map_entries(cells)) AS entry, generate_subscripts(map_keys(cells), 1) AS number
    FROM side_row WHERE file <> 'kernel_details.csv'
)
WHERE IF(is_step, name NOT IN ('Device_id', 'Step'), ends_with(name, '(MB)'));
CREATE TABLE sample AS
SELECT
    row_number() OVER (ORDER BY file, place, number) AS place, IF(is_step, 'us', 'MB') AS unit,
    concat_ws(' ', file, IF(is_step, NULL, COALESCE(NULLIF(cells['Component'], ''), 'memory')), regexp_replace(name, '\(MB\)$', '')) AS name,
    IF(is_step, NULL, ns_of_us(cells['Timestamp(us)'])) AS ts, TRY_CAST(trunc(number_of(cells['Step'])) AS BIGINT) AS step,
    number_of(cell) AS value
FROM cell WHERE number_of(cell) IS NOT NULL AND (is_step OR ns_of_us(cells['Timestamp(us)']) IS NOT NULL);
-- The sums of the only step of the file, us.
CREATE TABLE step_sum AS
SELECT name, number_of(cell) AS us FROM cell
WHERE is_step AND number_of(cell) IS NOT NULL AND (SELECT MAX(place) FROM cell WHERE is_step) = 0;

CREATE MACRO is_group(thread) AS thread LIKE 'Group%' OR thread LIKE '%Communication';
CREATE MACRO is_event_task(type) AS regexp_full_match(type, 'EVENT_(RECORD|WAIT)(_SQE)?|(MEM|CAPTURE)_(WAIT|WRITE|RECORD)\w*');
-- The category of an event, by its track, its category in the file, its name, and its type of task or level of call.
CREATE MACRO category_of(process, thread, given, name, type) AS CASE
    WHEN process = 'Ascend Hardware' THEN CASE
        WHEN name = 'MEMCPY_ASYNC' THEN 'gpu_memcpy'
        WHEN is_compute_task(type) OR type = 'Other' THEN 'kernel'  -- Other: old traces separate only AI_CPU from the rest
        WHEN is_event_task(type) OR is_event_task(name) THEN 'npu_event'
        ELSE 'npu_task'
    END
    WHEN process = 'CANN' THEN CASE
        WHEN lower(type) IN ('acl', 'model', 'node', 'runtime', 'communication') THEN 'cann_' || lower(type)
        WHEN lower(type) = 'hccl' THEN 'cann_communication'
        WHEN lower(type) = 'mstx' THEN 'mstx'
        ELSE 'cann'
    END
    WHEN process IN ('HCCL', 'Communication') THEN IF(
        is_group(thread) OR (starts_with(name, 'hcom_') AND NOT starts_with(thread, 'Plane')), 'communication', 'communication_task'
    )
    WHEN process = 'Overlap Analysis' THEN 'overlap_analysis'
    WHEN given = 'cpu_op' AND is_annotation(name) THEN 'user_annotation'
    WHEN list_contains(getvariable('categories'), given) THEN given
    ELSE 'other'
END;
-- An argument: a text, or an integer that may be written as a text.
CREATE MACRO text_of(value) AS CASE WHEN starts_with(value, '"') THEN json_extract_string(value, '$') END;
CREATE MACRO whole_of(value) AS CASE WHEN NOT regexp_matches(value, '\.\d*[1-9]') THEN TRY_CAST(trim(value, '"') AS HUGEINT) END;
-- 64 bits without a sign, of which the largest half counts as none.
CREATE MACRO positive(value) AS CASE WHEN value BETWEEN 0 AND 9223372036854775807 THEN CAST(value AS BIGINT) END;

CREATE TABLE event AS
WITH argument AS (
    SELECT
        parsed.index, json_extract(args, [
            '$."Task Type"', '$.level', '$.connection_id', '$."Model Id"', '$."Physic Stream Id"', '$."Stream Id"', '$.rank_size',
            '$."dst rank"', '$."size(B)"'
        ]) AS found
    FROM parsed INNER JOIN track USING (track) WHERE process NOT IN ('Python', 'Overlap Analysis')
),
typed AS (
    SELECT
        parsed.*, COALESCE(name, '') AS called, process, thread, text_of(found[1]) AS task_type,
        COALESCE(NULLIF(text_of(found[1]), ''), text_of(found[2]), '') AS type, positive(whole_of(found[3])) AS connection,
        whole_of(found[4]) AS model, CAST(COALESCE(whole_of(found[5]), whole_of(found[6])) AS BIGINT) AS stream,
        rank_number(whole_of(found[7])) AS ranks, rank_number(whole_of(found[8])) AS peer,
        TRY_CAST(trim(found[9], '"') AS DOUBLE) AS size
    FROM parsed INNER JOIN track USING (track) LEFT JOIN argument USING (index)
),
-- Kernels that are only how an operation of communication, which has a row, was carried out.
whole AS (
    SELECT ts, MAX(MAX(ts + dur)) OVER (ORDER BY ts) AS end_ts
    FROM typed WHERE process IN ('HCCL', 'Communication') AND is_group(thread) GROUP BY ts
),
carrying AS (
    SELECT index FROM typed ASOF JOIN whole ON typed.ts >= whole.ts
    WHERE process = 'Ascend Hardware' AND is_part_kernel(called) AND typed.ts < end_ts
)
SELECT
    typed.* EXCLUDE (thread), carrying.index IS NOT NULL AS carries,
    IF(carrying.index IS NULL, category_of(process, thread, COALESCE(cat, ''), called, type), 'npu_task') AS category,
    category IN ('kernel', 'gpu_memcpy', 'communication') AS is_activity,
    positive(CAST(trunc(CASE WHEN size BETWEEN 0 AND 9.2e18 THEN size END) AS HUGEINT)) AS bytes
FROM typed LEFT JOIN carrying USING (index) ORDER BY index;

CREATE MACRO number_in(label) AS TRY_CAST(regexp_extract(label, '^NPU\s*(\d{1,6})$', 1) AS BIGINT);
-- The device of each track. Labels of older files have no number; then processes of the same name are of several devices.
CREATE TABLE track_device AS
WITH labelled AS (SELECT *, label = 'NPU' OR (label = '' AND process = 'Ascend Hardware') AS is_unnumbered, number_in(label) AS label_device FROM track),

numbered AS (
    SELECT
        *,
        CASE
            WHEN is_unnumbered THEN DENSE_RANK() OVER (PARTITION BY process, is_unnumbered ORDER BY length(pid), pid) - 1
            ELSE label_device
        END AS device
    FROM labelled
),
task AS (
    SELECT connection, arg_max(device, index) AS device
    FROM event INNER JOIN numbered USING (track) WHERE device IS NOT NULL AND connection IS NOT NULL GROUP BY connection
),
-- Tasks that a thread of the host started, by the connection of its calls, and by the arrows of its operators.
started AS (
    SELECT event.track, task.device, {'way': 0, 'place': event.index} AS first
    FROM event INNER JOIN numbered USING (track) INNER JOIN task USING (connection) WHERE numbered.device IS NULL
    UNION ALL
    SELECT begun.track, numbered.device, {'way': 1, 'place': finish.place}
    FROM (SELECT arrow, arg_max(track, place) AS track FROM arrow_end WHERE kind = 'async_npu' AND phase = 's' GROUP BY arrow) AS begun
    INNER JOIN arrow_end AS finish ON finish.arrow = begun.arrow AND finish.kind = 'async_npu' AND finish.phase = 'f'
    INNER JOIN numbered ON finish.track = numbered.track WHERE numbered.device IS NOT NULL
),
of_track AS (
    SELECT track, arg_max(device, {'tasks': tasks, 'way': -first.way, 'place': -first.place}) AS device, MIN(first) AS first
    FROM (SELECT track, device, COUNT(*) AS tasks, MIN(first) AS first FROM started GROUP BY ALL) GROUP BY track
),
of_thread AS (SELECT tid, arg_max(of_track.device, first) AS device FROM of_track INNER JOIN track USING (track) GROUP BY tid),

used AS (SELECT DISTINCT device FROM event INNER JOIN numbered USING (track) WHERE event.process = 'Ascend Hardware' AND device IS NOT NULL)

SELECT
    track, COALESCE(numbered.device, of_thread.device, (SELECT MIN(device) FROM used)) AS device,
    used.device IS NOT NULL AS runs_tasks
FROM numbered LEFT JOIN used USING (device) LEFT JOIN of_thread ON numbered.tid IS NOT DISTINCT FROM of_thread.tid;

-- Rows of kernel_details.csv and their events, joined by start and name; of several equal ones each gets one of its own, the last first.
-- Starts of operations of communication are rounded in another way: those that have no row get one that begins 1 ns earlier or later.
CREATE TABLE event_detail (index BIGINT, place BIGINT);
CREATE MACRO equal_details(shift_ns) AS TABLE
WITH task AS (
    SELECT index, ts + shift_ns AS start_ns, called AS name, row_number() OVER (PARTITION BY ts, called ORDER BY index) AS nth
    FROM event ANTI JOIN event_detail USING (index) WHERE is_activity OR category = 'npu_task'
),
detail AS (
    SELECT place, start_ns, name, row_number() OVER (PARTITION BY start_ns, name ORDER BY place DESC) AS nth
    FROM kernel_detail ANTI JOIN event_detail USING (place)
)
SELECT index, place FROM task INNER JOIN detail USING (start_ns, name, nth);
INSERT INTO event_detail FROM equal_details(0);
INSERT INTO event_detail FROM equal_details(-1);
INSERT INTO event_detail FROM equal_details(1);

-- The arguments with what the files add: of kernels, and the communicator of an operation whose name no other has.
CREATE VIEW argument AS
WITH known AS (
    SELECT name, '"group": ' || to_json(MIN(communicator)) AS member
    FROM operation GROUP BY name HAVING COUNT(DISTINCT communicator) = 1
),
added AS (
    SELECT index, args, concat_ws(', ', NULLIF(members, ''), member) AS members
    FROM event LEFT JOIN event_detail USING (index) LEFT JOIN kernel_detail USING (place)
    LEFT JOIN known ON event.category = 'communication' AND event.called = known.name
)
SELECT
    index,
    CASE
        WHEN members = '' OR NOT regexp_matches(COALESCE(args, '{}'), '\}\s*$') THEN args
        ELSE regexp_replace(COALESCE(args, '{}'), '\s*\}\s*$', '')
            || IF(regexp_full_match(COALESCE(args, '{}'), '\s*\{\s*\}\s*'), '', ', ') || members || '}'
    END AS args
FROM added;
