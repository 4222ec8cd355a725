-- noqa: disable=AL05,AM04,AM07,CP02,CV06,RF01,RF05,ST11
-- From the tables of a database to the relations of the contract.

-- read.py makes input_column: how many cells of each column have a value, in the file and as they were read.
CREATE VIEW input AS SELECT DISTINCT table_name, table_rows FROM input_column;
CREATE TABLE step_sum AS
SELECT place, COALESCE(step, '') AS step, name, us
FROM (SELECT rowid AS place, * FROM StepTraceTime) UNPIVOT (us FOR name IN (
    computing AS 'Computing', communication_not_overlapped AS 'Communication(Not Overlapped)', overlapped AS 'Overlapped',
    communication AS 'Communication', free AS 'Free', stage AS 'Stage', bubble AS 'Bubble',
    communication_not_overlapped_and_exclude_receive AS 'Communication(Not Overlapped and Exclude Receive)', preparing AS 'Preparing'
));
CREATE TABLE analysed AS
SELECT hccl_op_name AS name, CAST(round_even(elapse_time * 1000000, 0) AS BIGINT) AS ns
FROM CommAnalyzerTime WHERE elapse_time IS NOT NULL AND hccl_op_name IS DISTINCT FROM 'Total Op Info';
CREATE TABLE rank (rank BIGINT, metadata VARCHAR);

CREATE MACRO braced(members) AS '{' || members || '}';
CREATE MACRO is_time(ns) AS COALESCE(ns BETWEEN 1 AND 4611686018427387904, FALSE);
CREATE MACRO connection_of(number) AS CASE WHEN number < 4000000000 THEN number END;  -- this and higher numbers stand for none
CREATE MACRO overlap_name(type) AS ['Computing', 'Communication', 'Communication(Not Overlapped)', 'Free'][type + 1];
CREATE MACRO pid_of(global_tid) AS global_tid >> 32;
CREATE MACRO tid_of(global_tid) AS global_tid & 4294967295;

-- The texts, by number, with what they say of an event that has one as its name or type.
CREATE TABLE text AS
SELECT
    id, value, is_annotation(value) AS is_annotation, value ILIKE 'dequeue%' AS is_dequeue, contains(value, '::') AS is_library,
    is_part_kernel(value) AS is_part_kernel, is_communication_kernel(value) AS is_communication_kernel,
    is_compute_task(value) AS is_compute_task,
    regexp_matches(value, '^(EVENT_(RECORD|WAIT)|MEM_(WAIT|WRITE)|CAPTURE_(WAIT|RECORD))') AS is_event,
    regexp_matches(value, '^(MEM|CAPTURE)_WAIT') AS is_wait_of_profiler, regexp_matches(value, '[a-zA-Z]') AS has_letters,
    CAST(to_json(value) AS VARCHAR) AS quoted
FROM (SELECT id, arg_max(value, rowid) AS value FROM STRING_IDS WHERE id IS NOT NULL AND value IS NOT NULL GROUP BY id);

-- Texts and words by their numbers, as they are and as JSON; a number that has no word stands for itself.
CREATE MACRO text_of(number) AS (SELECT value FROM text WHERE id = number);
CREATE MACRO quoted(number) AS (SELECT text.quoted FROM text WHERE id = number);
CREATE TABLE word AS
SELECT kind, id, CAST(to_json(arg_min(name, row)) AS VARCHAR) AS quoted
FROM (
    SELECT 'level' AS kind, id, name, rowid AS row FROM ENUM_API_TYPE
    UNION ALL SELECT 'copy', id, name, rowid FROM ENUM_MEMCPY_OPERATION
    UNION ALL SELECT 'data type', id, name, rowid FROM ENUM_HCCL_DATA_TYPE
    UNION ALL SELECT 'transport', id, name, rowid FROM ENUM_HCCL_TRANSPORT_TYPE
    UNION ALL SELECT 'link', id, name, rowid FROM ENUM_HCCL_LINK_TYPE
)
WHERE name IS NOT NULL GROUP BY kind, id;
CREATE MACRO word_of(of_kind, number) AS COALESCE((SELECT word.quoted FROM word WHERE kind = of_kind AND id = number), CAST(number AS VARCHAR));

-- Descriptions of compute tasks, each once, as members of JSON. Texts that say there is none are left out.
CREATE MACRO stated(name, number) AS text_member(name, NULLIF(NULLIF(trim(text_of(number), '"'), ''), 'N/A'));
CREATE MACRO key_of(task) AS row(
    task.opType, task.taskType, task.inputShapes, task.inputDataTypes, task.inputFormats, task.outputShapes, task.outputDataTypes,
    task.outputFormats, task.opState, COALESCE(task.blockDim, task.blockNum), COALESCE(task.mixBlockDim, task.mixBlockNum)
);
CREATE TABLE description AS
SELECT
    row_number() OVER () AS description, key,
    concat_ws(
        ',', stated('Type', key[1]), stated('Accelerator Core', key[2]), stated('Input Shapes', key[3]),
        stated('Input Data Types', key[4]), stated('Input Formats', key[5]), stated('Output Shapes', key[6]),
        stated('Output Data Types', key[7]), stated('Output Formats', key[8]), stated('OP State', key[9]),
        member('Block Dim', key[10]), member('Mix Block Dim', key[11])
    ) AS members
FROM (SELECT DISTINCT key_of(COMPUTE_TASK_INFO) AS key FROM COMPUTE_TASK_INFO);
CREATE TABLE described AS
SELECT globalTaskId, name AS name_id, description FROM COMPUTE_TASK_INFO AS task INNER JOIN description ON key = key_of(task)
WHERE task.rowid IN (SELECT MAX(rowid) FROM COMPUTE_TASK_INFO GROUP BY globalTaskId);

-- Compute tasks, by their type, that COMPUTE_TASK_INFO does not describe, but for rows that enclose others: around an operation of
-- communication, or right before the parts of the same task.
CREATE TABLE undescribed AS
WITH candidate AS (
    SELECT TASK.rowid AS row, deviceId, streamId, taskId
    FROM TASK INNER JOIN text ON taskType = text.id ANTI JOIN COMPUTE_TASK_INFO USING (globalTaskId)
    ANTI JOIN COMMUNICATION_TASK_INFO USING (globalTaskId) ANTI JOIN COMMUNICATION_OP USING (connectionId)
    WHERE is_compute_task
),
same_task AS (
    SELECT TASK.rowid AS row, endNs, contextId, LEAD(contextId) OVER place AS next_context, LEAD(startNs) OVER place AS next_ns
    FROM TASK SEMI JOIN candidate ON
        TASK.taskId IS NOT DISTINCT FROM candidate.taskId
        AND TASK.streamId IS NOT DISTINCT FROM candidate.streamId
        AND TASK.deviceId IS NOT DISTINCT FROM candidate.deviceId
    WINDOW place AS (PARTITION BY deviceId, streamId, taskId ORDER BY startNs, endNs DESC, contextId DESC)
)
SELECT row FROM candidate
EXCEPT
SELECT row FROM same_task WHERE contextId = 4294967295 AND next_context <> 4294967295 AND next_ns < endNs;

-- Where operations of communication ran, by their parts.
CREATE TABLE placed AS
SELECT opId, MIN(streamId) AS stream, MIN(deviceId) AS device, MIN(modelId) AS model
FROM COMMUNICATION_TASK_INFO INNER JOIN TASK USING (globalTaskId) GROUP BY opId;

-- One row for each task, also where a damaged file has several.
CREATE TABLE copied AS FROM MEMCPY_INFO WHERE rowid IN (SELECT MAX(rowid) FROM MEMCPY_INFO GROUP BY globalTaskId);
CREATE TABLE part_task AS
SELECT TASK.* FROM TASK
WHERE rowid IN (SELECT MAX(TASK.rowid) FROM TASK SEMI JOIN COMMUNICATION_TASK_INFO USING (globalTaskId) GROUP BY globalTaskId);

-- Kernels that are only how an operation of communication, which has a row, was carried out.
CREATE TABLE carrying AS
WITH whole AS (
    SELECT startNs, MAX(MAX(endNs)) OVER (ORDER BY startNs) AS end_ns FROM COMMUNICATION_OP WHERE startNs IS NOT NULL GROUP BY startNs
),
kernel AS (
    SELECT TASK.rowid AS row, startNs
    FROM TASK LEFT JOIN described USING (globalTaskId) INNER JOIN text ON text.id = COALESCE(described.name_id, TASK.taskType)
    WHERE is_part_kernel
)
SELECT row FROM kernel ASOF JOIN whole ON kernel.startNs >= whole.startNs WHERE kernel.startNs < end_ns;

-- All rows with events, whether they have a time or not. Tracks differ by place, pid (else the device), tid (thread, stream,
-- plane or kind) and communicator.
CREATE VIEW event_row AS
SELECT
    0 AS source, PYTORCH_API.rowid AS row,
    CASE type
        WHEN 50001 THEN IF(is_annotation, 'user_annotation', 'cpu_op') WHEN 50002 THEN IF(is_dequeue, 'dequeue', 'enqueue')
        WHEN 50003 THEN 'python_function' WHEN 50004 THEN 'mstx' ELSE 'other'
    END AS category,
    name AS name_id, NULL AS name, startNs, endNs, 'Python' AS place, pid_of(globalTid) AS pid, tid_of(globalTid) AS tid,
    NULL AS communicator, connectionId AS connection, NULL AS stream, NULL AS bytes, NULL AS description
FROM PYTORCH_API LEFT JOIN text ON text.id = PYTORCH_API.name
UNION ALL BY NAME
SELECT
    1 AS source, rowid AS row,
    CASE type
        WHEN 20000 THEN 'cann_acl' WHEN 15000 THEN 'cann_model' WHEN 10000 THEN 'cann_node' WHEN 5500 THEN 'cann_communication'
        WHEN 5000 THEN 'cann_runtime' WHEN 50004 THEN 'mstx' ELSE 'cann'
    END AS category,
    name AS name_id, startNs, endNs, 'CANN' AS place, pid_of(globalTid) AS pid, tid_of(globalTid) AS tid,
    connection_of(connectionId) AS connection
FROM CANN_API
UNION ALL BY NAME
SELECT
    2 AS source, rowid AS row, 'mstx' AS category, message AS name_id, startNs, endNs, 'ranges' AS place,
    pid_of(globalTid) AS pid, tid_of(globalTid) AS tid, connection_of(connectionId) AS connection
FROM MSTX_EVENTS
WHERE eventType IN (1, 2)  -- the others are marks
UNION ALL BY NAME
SELECT 3 AS source, rowid AS row, 'user_annotation' AS category, 'ProfilerStep#' || id AS name, startNs, endNs, 'ranges' AS place
FROM STEP_TIME  -- usually PyTorch's own events have all steps
ANTI JOIN (SELECT startNs, value AS step FROM PYTORCH_API INNER JOIN text ON text.id = name) AS known
    ON known.startNs = STEP_TIME.startNs AND known.step = 'ProfilerStep#' || STEP_TIME.id
UNION ALL BY NAME
SELECT
    4 AS source, TASK.rowid AS row,
    CASE
        WHEN description IS NOT NULL OR undescribed.row IS NOT NULL THEN IF(carrying.row IS NULL, 'kernel', 'npu_task')
        WHEN kind.value = 'MEMCPY_ASYNC' THEN 'gpu_memcpy' WHEN kind.is_event THEN 'npu_event' ELSE 'npu_task'
    END AS category,
    COALESCE(described.name_id, TASK.taskType) AS name_id, startNs, endNs, 'Ascend Hardware' AS place,
    deviceId AS pid, streamId AS tid, connection_of(connectionId) AS connection, streamId AS stream,
    CASE WHEN size >= 0 THEN size END AS bytes, description
FROM TASK LEFT JOIN described USING (globalTaskId) LEFT JOIN copied USING (globalTaskId)
LEFT JOIN text AS kind ON kind.id = TASK.taskType LEFT JOIN undescribed ON undescribed.row = TASK.rowid
LEFT JOIN carrying ON carrying.row = TASK.rowid
UNION ALL BY NAME
SELECT
    5 AS source, COMMUNICATION_OP.rowid AS row, 'communication' AS category, opName AS name_id, startNs, endNs, 'group' AS place,
    COALESCE(deviceId, placed.device, (
        SELECT CASE WHEN COUNT(DISTINCT deviceId) = 1 AND COUNT(*) = COUNT(deviceId) THEN MIN(deviceId) END FROM TASK
    )) AS pid,
    groupName AS communicator, connection_of(connectionId) AS connection, placed.stream
FROM COMMUNICATION_OP LEFT JOIN placed USING (opId)
UNION ALL BY NAME
SELECT
    6 AS source, COMMUNICATION_TASK_INFO.rowid AS row, 'communication_task' AS category,
    COMMUNICATION_TASK_INFO.taskType AS name_id, startNs, endNs, 'plane' AS place, deviceId AS pid, planeId AS tid,
    groupName AS communicator, connection_of(connectionId) AS connection
FROM COMMUNICATION_TASK_INFO LEFT JOIN part_task USING (globalTaskId)
UNION ALL BY NAME
SELECT
    7 AS source, rowid AS row, 'overlap_analysis' AS category, overlap_name(type) AS name, startNs, endNs,
    'Overlap Analysis' AS place, deviceId AS pid, type AS tid
FROM OVERLAP_ANALYSIS;

-- Those with a time, source by source, which takes less memory than all at once.
CREATE MACRO timed(first, last) AS TABLE
SELECT
    * EXCLUDE (startNs, endNs, place, tid, communicator), 1099511627776 * source + row AS key,
    {'kind': place, 'pid': pid, 'tid': tid, 'communicator': communicator} AS place, startNs AS ts, endNs - startNs AS dur,
    category IN ('kernel', 'gpu_memcpy', 'communication') AS is_activity
FROM event_row WHERE source BETWEEN first AND last AND is_time(startNs) AND is_time(endNs) AND endNs >= startNs;
CREATE TABLE event AS FROM timed(0, 0);
INSERT INTO event FROM timed(1, 3);
INSERT INTO event FROM timed(4, 4);
INSERT INTO event FROM timed(5, 7);

CREATE MACRO has_streams() AS EXISTS (FROM input_column WHERE column_name = 'streamPtr');
-- Marks of the program, and allocations of torch_npu's allocator, which alone has a stream. The engine of graphs has one of its own.
CREATE VIEW point AS
SELECT
    0 AS source, MSTX_EVENTS.rowid AS row, 'mstx' AS cat, message AS name_id, NULL AS name, startNs AS ts,
    {'kind': 'ranges', 'pid': pid_of(globalTid), 'tid': tid_of(globalTid), 'communicator': CAST(NULL AS BIGINT)} AS place,
    braced(concat_ws('', member('domain', quoted(domainId)))) AS args
FROM MSTX_EVENTS WHERE COALESCE(eventType, 0) NOT IN (1, 2)
UNION ALL BY NAME
SELECT
    IF(is_release, 2, 1) AS source, OP_MEMORY.rowid AS row, 'npu_memory' AS cat,
    IF(is_release, 'NPU release', 'NPU allocation') AS name, IF(is_release, releaseTime, allocationTime) AS ts,
    {'kind': 'allocations', 'pid': deviceId, 'tid': CAST(NULL AS BIGINT), 'communicator': CAST(NULL AS BIGINT)} AS place,
    braced(concat_ws(
        ',', member('bytes', size), member('allocated', IF(is_release, releaseTotalAllocated, allocationTotalAllocated)),
        member('reserved', IF(is_release, releaseTotalReserved, allocationTotalReserved)),
        member('active', IF(is_release, releaseTotalActive, allocationTotalActive)), member('operator', quoted(OP_MEMORY.name))
    )) AS args
FROM OP_MEMORY CROSS JOIN (VALUES (FALSE), (TRUE)) AS way (is_release)
WHERE IF(is_release, releaseTime, allocationTime) IS NOT NULL AND (streamPtr IS NOT NULL OR NOT has_streams());

-- Spans of steps, by their number as text.
CREATE TABLE span AS
SELECT CAST(id AS VARCHAR) AS step, arg_max(startNs, rowid) AS ts, arg_max(endNs, rowid) AS end_ts
FROM STEP_TIME WHERE is_time(startNs) AND is_time(endNs) GROUP BY id;

-- Samples, by the names that the text export has. Units are those of the database, though.
CREATE MACRO spelled(number) AS (
    SELECT COALESCE(MAP {'app': 'APP', 'device': 'Device', 'read': 'Read', 'write': 'Write'}[value], value) FROM text WHERE id = number
);
CREATE TABLE sample AS
WITH sampled AS (
    SELECT 0 AS kind, rowid AS row, 'AI Core Freq' AS process, 'AI Core Freq' AS name, 'MHz' AS unit, timestampNs AS ts, freq AS value
    FROM AICORE_FREQ
    UNION ALL
    SELECT UNNEST([1, 2]), rowid, 'NPU MEM', spelled(type) || UNNEST(['/DDR', '/HBM']), 'B', timestampNs, UNNEST([ddr, hbm]) FROM NPU_MEM
    UNION ALL
    SELECT 3, rowid, 'HBM', 'HBM ' || hbmId || '/' || spelled(type), 'B/s', timestampNs, bandwidth FROM HBM
    UNION ALL
    SELECT
        UNNEST([4, 5]), rowid, 'LLC', 'LLC ' || llcId || ' ' || spelled(mode) || UNNEST(['/Hit Rate', '/Throughput']),
        UNNEST(['%', 'B/s']), timestampNs, UNNEST([hitRate, throughput])
    FROM LLC
    UNION ALL
    SELECT 6, rowid, 'QoS', 'QoS ' || text_of(eventName), NULL, timestampNs, bandwidth FROM QOS
    UNION ALL
    SELECT
        UNNEST([7, 8, 9, 10]), rowid, 'Acc PMU',
        UNNEST(['read_bandwidth', 'write_band_width', 'read_ost', 'write_ost']) || ' (acc_id ' || accId || ')', NULL, timestampNs,
        UNNEST([readBwLevel, writeBwLevel, readOstLevel, writeOstLevel])
    FROM ACC_PMU
    UNION ALL
    SELECT
        UNNEST([11, 12]), rowid, 'Stars Soc Info', UNNEST(['L2 Buffer Bw Level', 'Mata Bw Level']), NULL, timestampNs,
        UNNEST([l2BufferBwLevel, mataBwLevel])
    FROM SOC_BANDWIDTH_LEVEL
    UNION ALL
    SELECT
        13, rowid, 'NPU MEM',
        'module ' || COALESCE((SELECT MIN(name) FROM ENUM_MODULE WHERE id = moduleId), CAST(moduleId AS VARCHAR)) || ' Total Reserved',
        'B', timestampNs, totalReserved
    FROM NPU_MODULE_MEM
    UNION ALL
    SELECT
        UNNEST([14, 15, 16]), rowid, 'Memory',
        text_of(component) || UNNEST([' Total Allocated', ' Total Reserved', ' Total Active']), 'B', timestamp,
        UNNEST([totalAllocated, totalReserved, totalActive])
    FROM MEMORY_RECORD
)
SELECT kind, row, process, COALESCE(name, process) AS name, unit, ts, value
FROM sampled WHERE is_time(ts) AND value IS NOT NULL
UNION ALL
-- The sums of each step, at its start, else at that of the profile.
SELECT 17, step_sum.rowid, 'step_trace_time', 'step_trace_time ' || name, 'us', COALESCE(span.ts, (SELECT MIN(ts) FROM event), 0), us
FROM step_sum LEFT JOIN span USING (step);

-- The tracks: those of slices, then those that points and counters have alone.
CREATE TABLE place AS
WITH used AS (
    SELECT DISTINCT place, 0 AS kind FROM event
    UNION ALL
    SELECT DISTINCT place, 1 + source FROM point WHERE is_time(ts)
    UNION ALL
    SELECT {'kind': process, 'pid': NULL, 'tid': NULL, 'communicator': NULL}, MIN(IF(kind = 17, 4, 5 + kind)) FROM sample GROUP BY process
),
numbered AS (
    SELECT
        place,
        row_number() OVER (
            ORDER BY
                MIN(kind),
                list_position(['Python', 'CANN', 'ranges', 'Ascend Hardware', 'group', 'plane', 'Overlap Analysis'], place.kind),
                place.pid NULLS FIRST, place.tid NULLS FIRST, place.communicator NULLS FIRST
        ) - 1 AS track
    FROM used GROUP BY place
),
communicator AS (
    SELECT place.communicator, row_number() OVER (ORDER BY MIN(track)) - 1 AS number
    FROM numbered WHERE place.kind IN ('group', 'plane') GROUP BY place.communicator
)
SELECT place, track, number
FROM numbered LEFT JOIN communicator ON communicator.communicator IS NOT DISTINCT FROM place.communicator;

CREATE VIEW track AS
WITH named AS (
    SELECT
        track, place.kind, place.pid AS slice_pid, place.tid AS slice_tid, COALESCE(place.pid, -1) AS pid,
        COALESCE(place.tid, -1) AS tid,
        -- The name and the order of the process, as in the text export, and the name of the thread.
        CASE place.kind
            WHEN 'Python' THEN ('Python', 0, NULL) WHEN 'ranges' THEN ('Python', 0, NULL) WHEN 'CANN' THEN ('CANN', 7, NULL)
            WHEN 'Ascend Hardware' THEN ('Ascend Hardware', 13, 'Stream ' || tid)
            WHEN 'group' THEN ('Communication', 17, 'Group ' || number || ' Communication')
            WHEN 'plane' THEN ('Communication', 17, 'Group ' || number || ' Plane ' || tid)
            WHEN 'allocations' THEN ('NPU MEM', 19, 'allocations')
            WHEN 'Overlap Analysis' THEN ('Overlap Analysis', 23, COALESCE(overlap_name(tid), CAST(tid AS VARCHAR)))
        END AS process
    FROM place
)
SELECT
    0 AS rank, track,
    CASE
        WHEN process IS NULL THEN kind WHEN process[3] IS NOT NULL THEN 'NPU ' || pid || ' ' || process[1]
        ELSE pid || IF(kind = 'CANN', ' CANN', '')
    END AS pid,
    CASE WHEN process IS NOT NULL THEN COALESCE(process[3], tid || IF(kind = 'ranges', ' ranges', '')) END AS tid,
    COALESCE(process[1], kind) AS process_name,
    CASE WHEN process IS NOT NULL THEN COALESCE(process[3], 'Thread ' || tid || IF(kind = 'ranges', ' ranges', '')) END AS thread_name,
    CASE WHEN process[3] IS NOT NULL THEN 'NPU ' || pid WHEN process IS NOT NULL THEN 'CPU' END AS process_labels,
    COALESCE(process[2], 24) AS process_sort_index,
    CASE WHEN process IS NOT NULL AND (process[3] IS NULL OR tid >= 0) THEN tid END AS thread_sort_index, slice_pid, slice_tid
FROM named;

-- Operators, each with its place among all events in the order of time.
CREATE TABLE operator AS
SELECT index, key, connection, place, ts, dur, COALESCE(is_library, FALSE) AS is_library
FROM (SELECT key, category, row_number() OVER (ORDER BY ts, dur DESC, key) - 1 AS index FROM event) AS ordered
INNER JOIN event USING (key) LEFT JOIN text ON text.id = name_id WHERE ordered.category = 'cpu_op';

-- The operator that requested the activities of a connection, and what stands for it: the innermost operator of a library (`aten::mm`)
-- around it, if there is one.
CREATE TABLE request AS
WITH first_operator AS (
    SELECT CONNECTION_IDS.connectionId AS connection, MIN(index) AS operator
    FROM operator INNER JOIN CONNECTION_IDS ON CONNECTION_IDS.id = operator.connection
    SEMI JOIN (SELECT connection FROM event WHERE is_activity) AS activity ON CONNECTION_IDS.connectionId = activity.connection
    GROUP BY CONNECTION_IDS.connectionId
),
part AS (
    SELECT index AS operator, place, 2 * ts AS begun
    FROM operator SEMI JOIN first_operator ON operator.index = first_operator.operator WHERE NOT is_library
),
-- Times are doubled, so that an operator without a duration can end after its own start.
library AS (
    SELECT
        index, place, 2 * ts AS begun, 2 * (ts + dur) + CAST(dur = 0 AS BIGINT) AS ended,
        row_number() OVER (PARTITION BY place ORDER BY index) AS number
    FROM operator WHERE is_library AND EXISTS (FROM part)
),
ending AS (SELECT place, ended, COUNT(*) OVER (PARTITION BY place ORDER BY ended) AS number FROM library),

-- How many operators of a library are open where one begins, and where a part of one begins.
level AS (
    SELECT library.index, library.place, library.number - 1 - COALESCE(ending.number, 0) AS depth
    FROM library ASOF LEFT JOIN ending ON library.place = ending.place AND library.begun >= ending.ended
),
inside AS (
    SELECT operator, part.place, library.number - COALESCE(ending.number, 0) AS depth
    FROM part ASOF JOIN library ON part.place = library.place AND part.operator > library.index
    ASOF LEFT JOIN ending ON part.place = ending.place AND part.begun >= ending.ended
),
around AS (
    SELECT operator, level.index AS library FROM inside
    ASOF JOIN level ON inside.place = level.place AND inside.depth - 1 = level.depth AND inside.operator > level.index
)
SELECT connection, COALESCE(library, operator) AS operator FROM first_operator LEFT JOIN around USING (operator);

-- The calls around an event, the innermost first, as the text export lists them.
CREATE VIEW stack AS
SELECT
    PYTORCH_CALLCHAINS.id, CAST(to_json(string_agg(COALESCE(text.value, '?'), E';\r\n' ORDER BY stackDepth)) AS VARCHAR) AS quoted
FROM PYTORCH_CALLCHAINS LEFT JOIN text ON text.id = stack WHERE PYTORCH_CALLCHAINS.id IS NOT NULL AND stack IS NOT NULL
GROUP BY PYTORCH_CALLCHAINS.id;

CREATE VIEW largest_group AS
SELECT MAX(GREATEST((SELECT MAX(rank_number(rankSize)) FROM COMMUNICATION_OP), (SELECT MAX(rank_number(dstRank)) + 1 FROM COMMUNICATION_TASK_INFO))) AS ranks;

-- Whether the column of shapes has the types: torch_npu of early 2025 mixed them up.
CREATE TABLE swapped AS
SELECT COALESCE(SUM(CAST(shapes.has_letters AS INTEGER)), 0) > COALESCE(SUM(CAST(types.has_letters AS INTEGER)), 0) AS is_swapped
FROM PYTORCH_API LEFT JOIN text AS shapes ON shapes.id = inputShapes LEFT JOIN text AS types ON types.id = inputDtypes;

-- The arguments of events.
CREATE VIEW argument AS
SELECT
    0 AS source, api.rowid AS row,
    braced(concat_ws(
        ',', member('Sequence number', sequenceNumber), member('Fwd thread id', fwdThreadId),
        member('Input Dims', IF(is_swapped, types.quoted, shapes.quoted)),
        member('Input type', IF(is_swapped, shapes.quoted, types.quoted)), member('Call stack', stack.quoted)
    )) AS args
FROM PYTORCH_API AS api CROSS JOIN swapped LEFT JOIN text AS shapes ON shapes.id = inputShapes
LEFT JOIN text AS types ON types.id = inputDtypes LEFT JOIN stack ON stack.id = callchainId
UNION ALL
SELECT
    1, rowid, braced(concat_ws(',', member('level', word_of('level', type)), member('connection_id', connection_of(connectionId))))
FROM CANN_API
UNION ALL
SELECT 2, rowid, braced(concat_ws(',', member('domain', quoted(domainId)), member('connection_id', connection_of(connectionId))))
FROM MSTX_EVENTS
UNION ALL
SELECT
    4, TASK.rowid,
    braced(concat_ws(
        ',', member('Task Type', quoted(TASK.taskType)), member('Model Id', modelId), member('Physic Stream Id', streamId),
        member('Task Id', taskId), member('Subtask Id', contextId), member('connection_id', connection_of(connectionId)),
        member('size(B)', CASE WHEN size >= 0 THEN size END), member('operation', word_of('copy', memcpyOperation)),
        NULLIF(members, '')
    ))
FROM TASK LEFT JOIN described USING (globalTaskId) LEFT JOIN description USING (description) LEFT JOIN copied USING (globalTaskId)
UNION ALL
SELECT
    5, operation.rowid,
    braced(concat_ws(
        ',', member('connection_id', connection_of(connectionId)), member('model id', placed.model),
        member('group', quoted(groupName)), member('data_type', word_of('data type', dataType)), member('alg_type', quoted(algType)),
        member('count', "count"), member('rank_size', rankSize), member('relay', relay), member('retry', retry)
    ))
FROM COMMUNICATION_OP AS operation LEFT JOIN placed USING (opId)
UNION ALL
SELECT
    6, part.rowid,
    braced(concat_ws(
        ',', member('task type', quoted(part.taskType)), member('src rank', srcRank), member('dst rank', dstRank),
        member('transport type', word_of('transport', transportType)), member('size(Byte)', size),
        member('link type', word_of('link', linkType)), member('data type', word_of('data type', dataType)),
        member('notify_id', notifyId), member('stream id', task.streamId), member('task id', task.taskId),
        member('group', quoted(groupName)), member('connection_id', connection_of(task.connectionId))
    ))
FROM COMMUNICATION_TASK_INFO AS part LEFT JOIN part_task AS task USING (globalTaskId);

CREATE VIEW slice AS
SELECT
    0 AS rank, event.key, category AS cat, event.name, name_id, ts, dur, track,
    COALESCE(request.operator, requested_by.index) AS external_id,
    CASE WHEN category NOT IN ('cpu_op', 'user_annotation', 'enqueue', 'dequeue') THEN event.connection END AS correlation, args,
    is_activity, event.pid AS device, stream, bytes
FROM event INNER JOIN place USING (place) LEFT JOIN argument ON argument.source = event.source AND argument.row = event.row
LEFT JOIN request ON is_activity AND request.connection = event.connection
LEFT JOIN (SELECT key, index FROM operator SEMI JOIN request ON operator.index = request.operator) AS requested_by ON requested_by.key = event.key;

CREATE VIEW instant AS
SELECT 0 AS rank, 1099511627776 * source + row AS key, cat, point.name, name_id, ts, track, args
FROM point INNER JOIN place USING (place) WHERE is_time(ts);

CREATE VIEW counter AS
SELECT 0 AS rank, 1099511627776 * kind + row AS key, sample.name, unit, ts, value, track
FROM sample INNER JOIN place ON place.place.kind = process AND place.place.pid IS NULL AND place.place.tid IS NULL;

-- Arrows from calls and from operators to activities, and through torch_npu's queue.
CREATE VIEW flow_end AS
SELECT 0 AS rank, 4 * connection AS flow, TRUE AS is_start, key
FROM event WHERE starts_with(category, 'cann') AND connection IS NOT NULL
UNION ALL
SELECT 0, 4 * connection + UNNEST([0, 1]), FALSE, key FROM event WHERE is_activity AND connection IS NOT NULL
UNION ALL
SELECT 0, 4 * connectionId + 1, TRUE, key FROM operator INNER JOIN CONNECTION_IDS ON CONNECTION_IDS.id = operator.connection
UNION ALL
SELECT 0, 4 * connectionId + 2, category = 'enqueue', key
FROM event INNER JOIN CONNECTION_IDS ON CONNECTION_IDS.id = event.connection WHERE category IN ('enqueue', 'dequeue');

CREATE VIEW count AS
SELECT
    0 AS rank, 'slice' AS phase, category AS cat, COUNT(*) AS events,
    CAST(COALESCE(SUM(CASE WHEN is_time(startNs) AND is_time(endNs) THEN endNs - startNs END), 0) AS BIGINT) AS dur
FROM event_row GROUP BY category
UNION ALL
SELECT 0, 'i', '', COUNT(*), 0 FROM point HAVING COUNT(*) > 0
UNION ALL
SELECT 0, 'counter', '', samples, 0 FROM (SELECT CAST(SUM(filled) AS BIGINT) + (SELECT COUNT(*) FROM step_sum) AS samples FROM input_column WHERE type = 'DOUBLE')
WHERE samples > 0;
