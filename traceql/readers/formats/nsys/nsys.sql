-- sqlfluff:rules:capitalisation.identifiers:unquoted_identifiers_policy:none
-- The relations of traceql.readers.relations, of the tables of an export.
--
-- A rank is a process and one of its GPUs. A globalTid has the thread in its low 24 bits and the
-- process in the next 24; a globalPid has zeros for the thread. Above them is the machine. Both may
-- be NULL, which is process 0 here.
--
-- Beside the tables of inputs.sql there are those that traceql.readers.formats.nsys.export makes:
-- `file_table`, all tables and views of the file, with `rows` of tables of events that are not read;
-- `payload`, the values of payloads as JSON.

CREATE MACRO key_of(source_number, row_number) AS (CAST(source_number AS BIGINT) << 40) + row_number;
CREATE MACRO is_in_file(table_name) AS EXISTS (SELECT 1 FROM file_table WHERE name = table_name);
CREATE MACRO process_of(global_id) AS global_id >> 24;
CREATE MACRO pid_of(global_id) AS (global_id >> 24) & 16777215;
CREATE MACRO tid_of(global_id) AS global_id & 16777215;
-- Copies are named as PyTorch's profiler names them (ENUM_CUDA_MEMCPY_OPER, ENUM_CUDA_MEM_KIND).
CREATE MACRO direction(kind) AS word(kind, map(
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10], ['HtoD', 'DtoH', 'HtoA', 'AtoH', 'AtoA', 'AtoD', 'DtoA', 'DtoD', 'HtoH', 'PtoP']
));
CREATE MACRO memory(kind) AS word(kind, map(
    [0, 1, 2, 3, 4, 5, 6], ['Pageable', 'Pinned', 'Device', 'Array', 'Managed', 'Device', 'Managed']
));
CREATE MACRO sync(kind) AS word(kind, map([1, 2, 3, 4], ['Event Sync', 'Stream Wait Event', 'Stream Sync', 'Context Sync']));

-- Events of GPUs with a duration. Those that do not nest with others of their stream or thread have
-- a track of their own, which `place` names. What has no end, or ends before it begins, is left out.
-- nsys gives replays of graphs that began or ended outside the recording no times.
CREATE VIEW gpu_row AS
WITH activity AS (
    SELECT
        *, rowid AS row, 0 AS source, 'kernel' AS cat, COALESCE(demangledName, shortName) AS name_id,
        triple(gridX, gridY, gridZ) AS grid, triple(blockX, blockY, blockZ) AS block,
        FALSE IN (is_size(gridX), is_size(gridY), is_size(gridZ), is_size(blockX), is_size(blockY), is_size(blockZ)) AS is_odd
    FROM CUPTI_ACTIVITY_KIND_KERNEL
    UNION ALL BY NAME
    SELECT * REPLACE (NULLIF(start, 0) AS start), rowid AS row, 1 AS source, 'cuda_graph' AS cat, 'CUDA graph, kernels not recorded' AS name
    FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE
    UNION ALL BY NAME
    SELECT
        *, rowid AS row, 2 AS source, 'gpu_memcpy' AS cat,
        'Memcpy ' || direction(copyKind) || ' (' || memory(srcKind) || ' -> ' || memory(dstKind) || ')' AS name
    FROM CUPTI_ACTIVITY_KIND_MEMCPY
    UNION ALL BY NAME
    SELECT *, rowid AS row, 3 AS source, 'gpu_memset' AS cat, 'Memset (' || memory(memKind) || ')' AS name
    FROM CUPTI_ACTIVITY_KIND_MEMSET
    UNION ALL BY NAME
    -- The largest number of 32 bits stands for no stream.
    SELECT
        * REPLACE (CASE WHEN streamId < 4294967295 THEN streamId END AS streamId), rowid AS row, 4 AS source,
        'cuda_sync' AS cat, 'synchronization' AS place, sync(syncType) AS name
    FROM CUPTI_ACTIVITY_KIND_SYNCHRONIZATION
)

SELECT
    key_of(source, row) AS key, cat, COALESCE(globalPid, 0) AS globalPid, deviceId AS device, streamId AS stream,
    COALESCE(place, '') AS place, name_id, name, start AS ts, "end" - start AS dur, correlationId AS correlation,
    object(concat_ws(
        ',', member('contextId', contextId), member('greenContextId', greenContextId), member('registersPerThread', registersPerThread),
        member('staticSharedMemory', staticSharedMemory), member('dynamicSharedMemory', dynamicSharedMemory),
        member('localMemoryPerThread', localMemoryPerThread), member('launchType', launchType), member('gridId', gridId),
        member('copyKind', copyKind), member('srcKind', srcKind), member('dstKind', dstKind), member('srcDeviceId', srcDeviceId),
        member('dstDeviceId', dstDeviceId), member('value', value), member('memKind', memKind), member('eventId', eventId),
        member('eventSyncId', eventSyncId), member('graphNodeId', graphNodeId), member('graphId', graphId),
        member('graphExecId', graphExecId)
    )) AS args,
    bytes, grid, block, graphNodeId AS graph_node_id, place IS NULL AS is_activity, COALESCE("end" >= start, FALSE) AS is_kept, is_odd
FROM activity;

CREATE VIEW gpu_event AS FROM gpu_row WHERE is_kept;

-- Activities make ranks.
CREATE TABLE part AS
SELECT ROW_NUMBER() OVER (ORDER BY globalPid, device) - 1 AS rank, globalPid, device, COUNT(*) AS activities
FROM gpu_row WHERE is_activity GROUP BY globalPid, device;

INSERT INTO part SELECT 0, NULL, NULL, 0 WHERE NOT EXISTS (FROM part);

CREATE TABLE process_part AS
SELECT process_of(globalPid) AS process, MIN(rank) AS first_rank, COUNT(*) AS gpus FROM part GROUP BY process;

CREATE VIEW gpu_point AS
SELECT
    key_of(1, rowid) AS key, 'cuda_event' AS cat, COALESCE(globalPid, 0) AS globalPid, deviceId AS device, streamId AS stream, '' AS place,
    'CUDA event' AS name, timestamp AS ts, COALESCE(object(member('eventId', eventId)), '{}') AS args
FROM CUPTI_ACTIVITY_KIND_CUDA_EVENT WHERE timestamp > 0 AND deviceId IS NOT NULL
UNION ALL
SELECT
    key_of(2, rowid), 'cuda_memory', COALESCE(globalPid, 0), deviceId, NULL, '',
    CASE memoryOperationType
        WHEN 0 THEN 'CUDA allocation' WHEN 1 THEN 'CUDA free' ELSE 'memory operation ' || memoryOperationType
    END,
    start,
    object(concat_ws(
        ',', member('bytes', bytes), member('address', address), member('memKind', memKind),
        member('memoryOperationType', memoryOperationType), member('streamId', streamId), member('correlationId', correlationId)
    ))
FROM CUDA_GPU_MEMORY_USAGE_EVENTS WHERE start IS NOT NULL AND deviceId IS NOT NULL;

-- The rank of each GPU: activities that make no rank are with the first rank of their process, and
-- those of a process without one with the first rank.
CREATE TABLE gpu AS
SELECT globalPid, device, COALESCE(part.rank, first_rank, 0) AS rank
FROM (SELECT globalPid, device FROM gpu_row UNION SELECT globalPid, device FROM gpu_point) LEFT JOIN part USING (globalPid, device)
LEFT JOIN process_part ON process = process_of(globalPid);

-- The rank of each thread: that of the GPU of its process on which it launched most.
CREATE TABLE thread AS
WITH known AS (
    SELECT globalTid FROM CUPTI_ACTIVITY_KIND_RUNTIME
    UNION SELECT globalTid FROM NVTX_EVENTS
    UNION SELECT globalTid FROM OSRT_API
    UNION SELECT globalTid FROM PROFILER_OVERHEAD
    UNION SELECT globalTid FROM CUPTI_ACTIVITY_KIND_OVERHEAD
),

launched AS (
    SELECT call.globalTid, part.rank, COUNT(*) AS kernels FROM CUPTI_ACTIVITY_KIND_KERNEL AS kernel
    INNER JOIN part ON part.globalPid = COALESCE(kernel.globalPid, 0) AND part.device = kernel.deviceId
    INNER JOIN process_part ON process = process_of(part.globalPid) AND gpus > 1
    INNER JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS call
        ON call.correlationId = kernel.correlationId AND process_of(call.globalTid) = process
    GROUP BY call.globalTid, part.rank
),

busiest AS (SELECT globalTid, arg_max(rank, (kernels, -rank)) AS rank FROM launched GROUP BY globalTid)

SELECT
    globalTid, COALESCE(busiest.rank, first_rank, 0) AS rank,
    first_rank IS NOT NULL OR (SELECT BOOL_OR(globalPid IS NULL) FROM part) AS is_own
FROM (SELECT DISTINCT COALESCE(globalTid, 0) AS globalTid FROM known) LEFT JOIN process_part ON process = process_of(globalTid)
LEFT JOIN busiest USING (globalTid);

-- The times in which these threads were on no CPU: until their next row.
CREATE TABLE off_cpu AS
SELECT start, "end", globalTid, threadState FROM (
    SELECT *, LEAD(start) OVER (PARTITION BY globalTid ORDER BY start, row) AS "end"
    FROM (SELECT * REPLACE (COALESCE(globalTid, 0) AS globalTid), rowid AS row FROM SCHED_EVENTS) SEMI JOIN thread USING (globalTid)
)
WHERE isSchedIn = 0 AND "end" IS NOT NULL ORDER BY start, row;

CREATE TABLE nvtx_domain AS
SELECT pid_of(globalTid) AS pid, domainId, LAST(COALESCE(text, value) ORDER BY NVTX_EVENTS.rowid) AS name
FROM NVTX_EVENTS LEFT JOIN StringIds ON id = textId WHERE eventType = 75 AND COALESCE(text, value) IS NOT NULL
GROUP BY pid, domainId;

-- Events of threads with a duration; without an end it is 0. NVTX ranges are pushed and popped (59,
-- 70), or started and ended (60, 71), perhaps by another thread.
CREATE VIEW host_row AS
WITH event AS (
    SELECT
        *, rowid AS row, 5 + eventClass AS source, TRUE AS is_call, -1 - nameId AS name_id,
        CASE eventClass WHEN 0 THEN 'cuda_runtime' ELSE 'cuda_driver' END AS cat
    FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE eventClass IN (0, 1)
    UNION ALL BY NAME
    SELECT
        nvtx.* EXCLUDE (category), 7 AS source, 'nvtx' AS cat, textId AS name_id, text AS name,
        CASE WHEN eventType IN (60, 71) THEN 'ranges' END AS place,
        CASE
            WHEN nvtx.domainId <> 0 OR category <> 0 OR color <> 0 OR endGlobalTid <> 0 OR nvtx.binaryData IS NOT NULL THEN concat_ws(
                ', ', '"domain": ' || to_json(COALESCE(domain.name, CAST(NULLIF(nvtx.domainId, 0) AS VARCHAR))),
                '"category": ' || category, '"color": ' || color,
                CASE WHEN endGlobalTid <> globalTid THEN '"end thread": ' || tid_of(endGlobalTid) END,
                CASE WHEN nvtx.binaryData IS NOT NULL THEN '"payload": ' || COALESCE(payload.value, '{}') END
            )
        END AS members
    FROM (SELECT *, rowid AS row FROM NVTX_EVENTS) AS nvtx
    LEFT JOIN nvtx_domain AS domain ON domain.pid = pid_of(globalTid) AND domain.domainId = NULLIF(nvtx.domainId, 0)
    LEFT JOIN payload ON payload.domainId = nvtx.domainId AND payload.binaryData = nvtx.binaryData
    WHERE eventType IN (59, 70, 60, 71) AND "end" IS NOT NULL
    UNION ALL BY NAME
    SELECT *, rowid AS row, 8 AS source, 'os_runtime' AS cat, nameId AS name_id FROM OSRT_API
    UNION ALL BY NAME
    SELECT *, rowid AS row, 9 AS source, 'overhead' AS cat, nameId AS name_id FROM PROFILER_OVERHEAD
    UNION ALL BY NAME
    SELECT
        * EXCLUDE (correlationId), rowid AS row, 10 AS source, 'overhead' AS cat, 'overhead' AS place, nameId AS name_id,
        member('correlationId', correlationId) AS members
    FROM CUPTI_ACTIVITY_KIND_OVERHEAD
    UNION ALL BY NAME
    SELECT *, rowid AS row, 11 AS source, 'off_cpu' AS cat, 'scheduling' AS place, 'off the CPU' AS name FROM off_cpu
)

SELECT
    key_of(source, row) AS key, cat, is_call, COALESCE(globalTid, 0) AS globalTid, COALESCE(place, '') AS place, name_id, name,
    start AS ts, COALESCE("end", start) - start AS dur, correlationId AS correlation,
    object(concat_ws(
        ',', members, member('returnValue', returnValue), member('overheadType', overheadType), member('threadState', threadState)
    )) AS args,
    COALESCE("end" >= start, TRUE) AS is_kept
FROM event;

CREATE VIEW host_event AS FROM host_row WHERE is_kept;

-- Events without a duration: marks and ranges that were not closed, CUDA events, allocations.
CREATE VIEW host_point AS
SELECT
    key_of(0, rowid) AS key, 'nvtx' AS cat, COALESCE(globalTid, 0) AS globalTid, '' AS place, textId AS name_id, text AS name,
    start AS ts, CASE WHEN eventType NOT IN (34, 65) THEN '{"open": true}' END AS args
FROM NVTX_EVENTS WHERE eventType IN (34, 65) OR eventType IN (59, 70, 60, 71) AND "end" IS NULL;

-- Samples of GPU metrics. A metric is one of a type, and each GPU has a type of its own, whose low
-- byte is the number of the GPU in TARGET_INFO_GPU.
CREATE VIEW sample AS
SELECT key_of(3, rowid) AS key, timestamp AS ts, typeId, metricId, value FROM GPU_METRICS
WHERE timestamp IS NOT NULL AND typeId IS NOT NULL AND metricId IS NOT NULL AND value IS NOT NULL;

-- The GPUs of a rank. Without a table of them, the number of a device is that of its process, which
-- may see some of the GPUs only.
CREATE TABLE rank_gpu AS
SELECT rank, gpuId AS number, TRUE AS is_sure FROM part INNER JOIN TARGET_INFO_CUDA_DEVICE ON cudaId = device AND pid = pid_of(globalPid)
UNION ALL
SELECT
    rank, found.id, CASE
        WHEN (SELECT COUNT(DISTINCT globalPid) FROM part) > 1 THEN (SELECT COUNT(DISTINCT id) FROM TARGET_INFO_GPU) = 1
        ELSE cuDevice = device
    END
FROM part CROSS JOIN TARGET_INFO_GPU AS found WHERE globalPid IS NOT NULL AND NOT is_in_file('TARGET_INFO_CUDA_DEVICE');

-- The first rank that ran on the GPU of a type, as far as that is certain; else the first rank.
CREATE TABLE metric_type AS
SELECT typeId, COUNT(*) AS samples, typeId & 255 AS gpu, COALESCE(MIN(rank), 0) AS rank, MIN(rank) IS NOT NULL AS is_known
FROM sample LEFT JOIN (SELECT number, MIN(rank) AS rank FROM rank_gpu WHERE is_sure GROUP BY number) ON number = typeId & 255
GROUP BY typeId;

-- Of repeated rows the first counts. nsys shows clocks in megahertz, and exports say so, but hold
-- hertz: no clock of a GPU is so slow in hertz, or so fast in megahertz.
CREATE TABLE metric AS
WITH named AS (
    SELECT
        typeId, metricId, FIRST(metricName ORDER BY rowid) AS name,
        regexp_extract(name, '^(.*?)(?: \[([^\]]*)\])?$', ['name', 'unit']) AS parts,
        COUNT(*) OVER (PARTITION BY typeId, name) > 1 AS is_repeated
    FROM TARGET_INFO_GPU_METRICS WHERE metricName IS NOT NULL GROUP BY typeId, metricId
),

clock AS (SELECT MAX(value) >= 1000000 AS in_hertz FROM sample INNER JOIN named USING (typeId, metricId) WHERE name LIKE '%[MHz]')

SELECT
    typeId, metricId, COALESCE(parts.name || CASE WHEN is_repeated THEN ' (' || metricId || ')' ELSE '' END, 'metric ' || metricId) AS name,
    CASE WHEN parts.unit = 'MHz' AND (SELECT in_hertz FROM clock) THEN 'Hz' ELSE NULLIF(parts.unit, '') END AS unit
FROM (SELECT DISTINCT typeId, metricId FROM sample) LEFT JOIN named USING (typeId, metricId);

-- Tracks in the order of their first use: a thread, a stream, or the metrics of a GPU.
CREATE TABLE place AS
WITH used AS (
    SELECT 0 AS kind, rank, 1 AS owner, device AS number, stream, place FROM gpu_event INNER JOIN gpu USING (globalPid, device)
    UNION SELECT 0, rank, 0, globalTid, NULL, place FROM host_event INNER JOIN thread USING (globalTid)
    UNION SELECT 1, rank, 0, globalTid, NULL, place FROM host_point INNER JOIN thread USING (globalTid)
    UNION SELECT key >> 40, rank, 1, device, stream, place FROM gpu_point INNER JOIN gpu USING (globalPid, device)
    UNION SELECT 4, rank, 2, typeId, NULL, '' FROM metric_type
)

SELECT
    rank, owner, number, stream, place,
    ROW_NUMBER() OVER (
        PARTITION BY rank ORDER BY MIN(kind), owner, number, stream NULLS FIRST,
            list_position(['', 'synchronization', 'ranges', 'scheduling', 'overhead'], place)
    ) - 1 AS track
FROM used GROUP BY rank, owner, number, stream, place;

CREATE TABLE gpu_place AS
SELECT globalPid, device, stream, place, rank, track FROM place INNER JOIN gpu USING (rank) WHERE owner = 1 AND device = number;

CREATE TABLE host_place AS
SELECT globalTid, place, rank, track, is_own FROM place INNER JOIN thread USING (rank) WHERE owner = 0 AND globalTid = number;

-- ---- the relations ----

-- Correlations are those of a process: an API server without a GPU has the same as the workers.
CREATE VIEW slice AS
SELECT gpu_event.*, rank, track FROM gpu_event  -- noqa: AM04
INNER JOIN gpu_place USING (globalPid, device, place) WHERE gpu_event.stream IS NOT DISTINCT FROM gpu_place.stream
UNION ALL BY NAME
SELECT host_event.* REPLACE (CASE WHEN is_own OR is_call IS NULL THEN correlation END AS correlation), rank, track
FROM host_event INNER JOIN host_place USING (globalTid, place);

CREATE VIEW flow_end AS
SELECT rank, correlation AS flow, FALSE AS is_start, key FROM gpu_event INNER JOIN gpu USING (globalPid, device)
WHERE is_activity AND correlation <> 0
UNION ALL
SELECT rank, correlation, TRUE, key FROM host_event INNER JOIN thread USING (globalTid) WHERE is_call AND is_own AND correlation <> 0;

CREATE VIEW instant AS
SELECT host_point.*, rank, track FROM host_point INNER JOIN host_place USING (globalTid, place)  -- noqa: AM04
UNION ALL BY NAME
SELECT gpu_point.*, rank, track FROM gpu_point INNER JOIN gpu_place USING (globalPid, device, place)
WHERE gpu_point.stream IS NOT DISTINCT FROM gpu_place.stream;

CREATE VIEW counter AS
SELECT rank, key, name, unit, ts, value, track FROM sample INNER JOIN metric USING (typeId, metricId)
INNER JOIN metric_type USING (typeId) INNER JOIN place USING (rank) WHERE owner = 2 AND number = typeId;

-- Names of calls are without the version, and the kind of default stream.
CREATE VIEW text AS
SELECT id, value FROM StringIds
UNION ALL
SELECT -1 - id, regexp_replace(value, '(_v\d+)?(_pt(sz|ds))?$', '') FROM StringIds SEMI JOIN CUPTI_ACTIVITY_KIND_RUNTIME ON nameId = id;

CREATE VIEW track AS
WITH thread_name AS (
    SELECT globalTid, LAST(redacted(value) ORDER BY ThreadNames.rowid) AS name FROM ThreadNames
    INNER JOIN StringIds ON id = nameId GROUP BY globalTid
),

process AS (SELECT pid, LAST(name ORDER BY rowid) AS name FROM PROCESSES WHERE name IS NOT NULL GROUP BY pid)

SELECT  -- noqa: AM07
    rank, track, CAST(number AS VARCHAR) AS pid, COALESCE('stream ' || stream, 'all streams') AS stream_name,
    CASE WHEN place = '' THEN CAST(COALESCE(stream, -1) AS VARCHAR) ELSE stream_name || ' ' || place END AS tid,
    'GPU ' || number AS process_name, rtrim(stream_name || ' ' || place) AS thread_name, process_name AS process_labels,
    number AS slice_pid, stream AS slice_tid
FROM place WHERE owner = 1
UNION ALL BY NAME
SELECT
    rank, track, CAST(pid_of(number) AS VARCHAR) AS pid, rtrim(tid_of(number) || ' ' || place) AS tid,
    process.name AS process_name, trim(COALESCE(thread_name.name, CAST(tid_of(number) AS VARCHAR)) || ' ' || place) AS thread_name,
    pid_of(number) AS slice_pid, tid_of(number) AS slice_tid
FROM place LEFT JOIN thread_name ON globalTid = number LEFT JOIN process ON process.pid = pid_of(number) WHERE owner = 0
UNION ALL BY NAME
SELECT rank, track, 'GPU metrics ' || number AS pid, 'GPU metrics of GPU ' || (number & 255) AS process_name FROM place WHERE owner = 2;

-- Counted in the tables as they were read, by rank alone.
CREATE TABLE counted AS
SELECT
    rank, cat, COUNT(*) FILTER (is_kept) AS kept, COUNT(*) FILTER (NOT is_kept) AS left_out, SUM(dur) FILTER (is_kept) AS dur,
    COUNT(*) FILTER (is_kept AND is_odd) AS odd
FROM (
    SELECT rank, cat, is_kept, is_odd, dur FROM gpu_row INNER JOIN gpu USING (globalPid, device)
    UNION ALL SELECT rank, cat, is_kept, FALSE, dur FROM host_row INNER JOIN thread USING (globalTid)
)
GROUP BY rank, cat;

CREATE TABLE category AS
SELECT DISTINCT cat, phase FROM (
    VALUES
    ('KERNEL', 'kernel', 'slice'), ('GRAPH_TRACE', 'cuda_graph', 'slice'), ('MEMCPY', 'gpu_memcpy', 'slice'),
    ('MEMSET', 'gpu_memset', 'slice'), ('SYNCHRONIZATION', 'cuda_sync', 'slice'), ('RUNTIME', 'cuda_runtime', 'slice'),
    ('RUNTIME', 'cuda_driver', 'slice'), ('OVERHEAD', 'overhead', 'slice'), ('PROFILER_OVERHEAD', 'overhead', 'slice'),
    ('NVTX_EVENTS', 'nvtx', 'slice'), ('OSRT_API', 'os_runtime', 'slice'), ('SCHED_EVENTS', 'off_cpu', 'slice'),
    ('NVTX_EVENTS', '', 'i'), ('CUDA_EVENT', '', 'i'), ('CUDA_GPU_MEMORY_USAGE_EVENTS', '', 'i')
) AS source (name, cat, phase)
INNER JOIN file_table ON file_table.name IN (source.name, 'CUPTI_ACTIVITY_KIND_' || source.name);

CREATE VIEW count AS
WITH found AS (
    SELECT rank, 'slice' AS phase, cat, kept AS events, dur FROM counted
    UNION ALL
    SELECT rank, 'i', '', COUNT(*), 0 FROM (
        SELECT rank FROM host_point INNER JOIN thread USING (globalTid)
        UNION ALL SELECT rank FROM gpu_point INNER JOIN gpu USING (globalPid, device)
    )
    GROUP BY rank
)

SELECT rank, phase, cat, COALESCE(events, 0) AS events, COALESCE(dur, 0) AS dur FROM (SELECT rank FROM part)
CROSS JOIN category LEFT JOIN found USING (rank, phase, cat)
UNION ALL BY NAME
SELECT rank, 'counter' AS phase, '' AS cat, SUM(samples) AS events, 0 AS dur FROM metric_type GROUP BY rank;

-- Older exports have another table of options. What those do to times is not documented.
CREATE TABLE option AS
SELECT name, LAST(value ORDER BY row) AS value FROM (
    SELECT name, value, rowid AS row FROM META_DATA_EXPORT
    UNION ALL
    SELECT name, value, rowid FROM EXPORT_META_DATA WHERE NOT EXISTS (FROM META_DATA_EXPORT)
)
GROUP BY name;

CREATE VIEW time_option AS
SELECT name, CASE WHEN regexp_full_match(value, 'true|[-+]?\d{1,20}') THEN value ELSE 'another value' END AS value
FROM option WHERE name IN ('EXPORT_PARAM_TIME_NORMALIZE', 'EXPORT_PARAM_TIME_SHIFT') AND value NOT IN ('false', '0');

-- The rank that each process has in its largest communicator of NCCL, if that differs between all ranks.
CREATE TABLE nccl AS
WITH found AS (
    SELECT
        part.rank AS number, CAST(value -> '$."No. of ranks"' AS BIGINT) AS world_size, CAST(value -> '$."Rank"' AS BIGINT) AS rank
    FROM (
        SELECT process_of(globalTid) AS process, NVTX_EVENTS.rowid AS row, value FROM NVTX_EVENTS INNER JOIN payload USING (domainId, binaryData)
        WHERE json_type(value, '$."No. of ranks"') = 'UBIGINT' AND json_type(value, '$."Rank"') = 'UBIGINT'
    )
    INNER JOIN part ON process = process_of(globalPid) WHERE rank < world_size AND world_size < 2147483648
    QUALIFY ROW_NUMBER() OVER (PARTITION BY number ORDER BY world_size DESC, row) = 1
)

FROM found
WHERE (SELECT COUNT(DISTINCT rank) = (SELECT COUNT(*) FROM part) AND COUNT(DISTINCT world_size) = 1 FROM found);

CREATE VIEW rank AS
WITH about AS (
    SELECT
        ANY_VALUE(value) FILTER (name = 'EXPORT_PRODUCT_VERSION') AS version,
        ANY_VALUE(value) FILTER (name = 'EXPORT_SCHEMA_VERSION') AS schema
    FROM option WHERE regexp_full_match(value, '\d+(\.\d+)*(-\w{1,20})?')
),

device AS (
    SELECT rank, FIRST(name ORDER BY found.row) AS name, FIRST(uuid ORDER BY found.row) AS uuid FROM part
    INNER JOIN (SELECT *, rowid AS row FROM TARGET_INFO_GPU) AS found ON CASE
        WHEN is_in_file('TARGET_INFO_CUDA_DEVICE')
            THEN id = (SELECT FIRST(gpuId) FROM TARGET_INFO_CUDA_DEVICE WHERE cudaId = device AND pid = pid_of(globalPid))
        ELSE cuDevice = device
    END
    GROUP BY rank
)

SELECT
    part.rank,
    json_object(
        'version', version, 'schema', schema,
        'utc_epoch_ns', CASE WHEN NOT EXISTS (FROM time_option) THEN (SELECT FIRST(utcEpochNs) FROM TARGET_INFO_SESSION_START_TIME) END,
        'cuda_graph_trace', (SELECT FIRST(value) FROM META_DATA_CAPTURE), 'machine', globalPid >> 48, 'process', pid_of(globalPid),
        'process_name', (SELECT FIRST(name ORDER BY rowid) FROM PROCESSES WHERE PROCESSES.globalPid = part.globalPid),
        'device', part.device, 'device_name', device.name, 'device_uuid', device.uuid, 'world_size', world_size, 'rank', nccl.rank,
        'rank_source', CASE WHEN nccl.rank IS NOT NULL THEN 'NCCL init in NVTX' END
    ) AS metadata
FROM part CROSS JOIN about LEFT JOIN device USING (rank) LEFT JOIN nccl ON nccl.number = part.rank;
