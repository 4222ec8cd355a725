-- noqa: disable=AM04,AM07,RF01
-- Columns go through by name, and fields of structs are not tables.
-- Records and samples of rocprofv3 become the relations of the reader contract.
--
-- A rank is a process and one of its GPUs. Threads belong to the GPU that they launched most on.
-- Processes without a GPU, such as an API server, are with the first rank.
-- The shape of a record is kernel, copy, call, allocation or mark; of a counter, it is what is not
-- loaded. The thread of what a GPU did is that of the call that launched it.
-- AMD counts the grid in threads.
CREATE MACRO blocks(threads, size) AS CASE WHEN threads > 0 AND size > 0 THEN (threads - 1) // size + 1 END;

CREATE VIEW event AS
SELECT
    * RENAME (begin AS ts), row_key(process, place, row) AS key, finish - begin AS dur, shape IN ('kernel', 'copy') AS on_gpu,
    shape = 'mark' AS is_mark, owner_of(process, on_gpu, IF(on_gpu, device, thread_id)) AS owner,
    {
        'owner': owner, 'stream': IF(on_gpu, stream_id, NULL), 'queue': IF(on_gpu, queue_id, NULL), 'is_mark': is_mark,
        -- Ranges and memory need not nest with the calls of their thread.
        'kind': CASE WHEN shape = 'allocation' THEN 2 WHEN NOT is_mark AND function IN getvariable('ranges') THEN 1 ELSE 0 END
    } AS spot_key,
    IF(shape = 'kernel', dispatch_id, NULL) AS dispatch, NOT is_mark AND lower(cat) IN getvariable('calls') AS is_call
FROM record WHERE is_loaded(begin, finish) AND shape IN ('kernel', 'copy', 'call', 'allocation', 'mark');

CREATE TABLE counted AS
SELECT
    process, shape, cat, owner_of(process, shape IN ('kernel', 'copy'), IF(shape IN ('kernel', 'copy'), device, thread_id)) AS owner,
    COUNT(*) FILTER (is_loaded(begin, finish)) AS events, COALESCE(SUM(finish - begin) FILTER (is_loaded(begin, finish)), 0) AS dur,
    COUNT(*) FILTER (NOT has_time(begin)) AS without_times, COUNT(*) FILTER (is_backward(begin, finish)) AS backward,
    min_by(format('{}, row {}: ', origin, row + 1) || time_problem(begin, finish), (origin, row))
        FILTER (has_time(begin) AND time_problem(begin, finish) IS NOT NULL) AS problem
FROM record GROUP BY ALL;

CREATE TABLE gpu AS
SELECT process, device, bool_or(is_kernel) AS has_kernels FROM (
    SELECT process, device, dispatch IS NOT NULL AS is_kernel FROM event WHERE on_gpu
    UNION ALL
    SELECT process, device, FALSE FROM sample
)
GROUP BY process, device;

CREATE TABLE rank_part AS
WITH chosen AS (
    SELECT process, device FROM gpu WHERE device IS NOT NULL
    QUALIFY has_kernels OR NOT bool_or(has_kernels) OVER (PARTITION BY process)
    UNION ALL
    SELECT process, NULL FROM gpu GROUP BY process HAVING COUNT(device) = 0
)

SELECT
    process, device, pid, name, row_number() OVER (ORDER BY COALESCE(pid, 0), process, device) - 1 AS rank,
    row_number() OVER (PARTITION BY process ORDER BY device) = 1 AS is_first
FROM chosen INNER JOIN process USING (process);

-- The rank of each GPU and each thread.
CREATE TABLE place AS
WITH launching AS (
    SELECT owner_of(process, FALSE, thread_id) AS owner, device
    FROM (SELECT process, thread_id, device, COUNT(*) AS events, MIN(key) AS first_key FROM event WHERE on_gpu GROUP BY ALL)
    QUALIFY row_number() OVER (PARTITION BY process, thread_id ORDER BY events DESC, first_key) = 1
),

placed AS (
    SELECT owner_of(process, TRUE, device) AS owner, device FROM gpu
    UNION ALL
    FROM (SELECT DISTINCT owner FROM event WHERE NOT on_gpu) LEFT JOIN launching USING (owner)
)

SELECT owner, COALESCE(own.rank, first.rank, 0) AS rank FROM placed
LEFT JOIN rank_part AS own ON owner.process = own.process AND placed.device IS NOT DISTINCT FROM own.device
LEFT JOIN rank_part AS first ON owner.process = first.process AND first.is_first;

-- The track of each kind of event. The stream of an activity is HIP's, or the queue of the GPU where
-- no streams were recorded.
CREATE TABLE spot AS
WITH laned AS (
    SELECT
        spot_key, rank, owner, spot_key.kind, spot_key.is_mark,
        IF(bool_or(spot_key.stream > 0) OVER (PARTITION BY rank), spot_key.stream, COALESCE(spot_key.queue, spot_key.stream)) AS lane
    FROM (SELECT DISTINCT spot_key FROM event) INNER JOIN place ON spot_key.owner = owner
),

keyed AS (
    SELECT *, (owner.process, owner.on_gpu, COALESCE(owner.number, -1), IF(owner.on_gpu, COALESCE(lane, -1), -1), kind) AS track_key
    FROM laned
)

SELECT * EXCLUDE (is_mark, has_slices), dense_rank() OVER (PARTITION BY rank ORDER BY NOT has_slices, track_key) - 1 AS track
FROM (SELECT *, bool_or(NOT is_mark) OVER (PARTITION BY rank, track_key) AS has_slices FROM keyed);

CREATE VIEW track AS
WITH tracks AS (
    SELECT DISTINCT
        rank, track, owner.on_gpu, kind, process.pid, process.name, NULLIF(track_key[3], -1) AS number,
        NULLIF(track_key[4], -1) AS stream,
        COALESCE(CAST(number AS VARCHAR), 'unknown thread') || ['', ' ranges', ' memory'][kind + 1] AS thread
    FROM spot INNER JOIN process ON owner.process = process
)

SELECT
    rank, track, IF(on_gpu, number, pid) AS slice_pid, IF(on_gpu, stream, number) AS slice_tid,
    CAST(slice_pid AS VARCHAR) AS pid, IF(on_gpu OR kind = 0, CAST(slice_tid AS VARCHAR), thread) AS tid,
    IF(on_gpu, concat_ws(' ', 'GPU', number), redacted(name)) AS process_name,
    IF(on_gpu, COALESCE('stream ' || stream, 'no stream'), thread) AS thread_name, IF(on_gpu, process_name, NULL) AS process_labels
FROM tracks
UNION ALL BY NAME
SELECT rank, COALESCE(MAX(track) + 1, 0) AS track, 'counters' AS pid, 'counters' AS process_name
FROM (SELECT DISTINCT rank FROM sample INNER JOIN place ON owner_of(process, TRUE, device) = owner)
LEFT JOIN spot USING (rank) GROUP BY rank;

-- Numbers of other processes than that of the rank are the same, and mean other calls.
CREATE VIEW placed AS
SELECT
    event.*, rank, lane, track, event.process = rank_part.process AS is_own,
    IF(is_own, NULLIF(correlation_id, 0), NULL) AS correlation
FROM event INNER JOIN spot USING (spot_key) INNER JOIN rank_part USING (rank) WHERE NOT is_mark;

-- A kernel has the correlation of the innermost call that was traced. Where HSA was traced too, that
-- is a call of HSA inside the call of HIP that launched it, whose correlation it gets.
CREATE TABLE moved AS
WITH stray AS (
    SELECT rank, correlation FROM placed WHERE NOT is_call AND correlation IS NOT NULL
    EXCEPT
    SELECT rank, correlation FROM placed WHERE is_call
),

calls AS (
    SELECT rank, COALESCE(thread_id, -1) AS thread, ts, max_by((ts + dur, COALESCE(correlation, 0)), key) AS call FROM placed
    WHERE is_call AND is_own GROUP BY rank, thread, ts
)

SELECT nested.rank, nested.correlation, max_by(call[2], nested.key) AS call_correlation FROM placed AS nested
SEMI JOIN stray USING (rank, correlation)
ASOF JOIN calls ON nested.rank = calls.rank AND COALESCE(nested.thread_id, -1) = calls.thread AND nested.ts >= calls.ts
WHERE NOT on_gpu AND nested.ts + nested.dur <= call[1] GROUP BY nested.rank, nested.correlation;

CREATE VIEW linked AS
SELECT
    placed.* EXCLUDE (correlation, name),
    IF(on_gpu AND call_correlation IS NOT NULL, NULLIF(call_correlation, 0), correlation) AS correlation,
    IF(shape = 'copy', COALESCE(getvariable('copies')[name], name), name) AS name, IF(shape = 'copy', size, NULL) AS bytes,
    triple(
        blocks(grid_size_x, workgroup_size_x), blocks(grid_size_y, workgroup_size_y), blocks(grid_size_z, workgroup_size_z)
    ) AS grid,
    triple(workgroup_size_x, workgroup_size_y, workgroup_size_z) AS block
FROM placed LEFT JOIN moved USING (rank, correlation);

CREATE VIEW slice AS
SELECT
    rank, key, cat, name, ts, dur, track, correlation, on_gpu AS is_activity, IF(on_gpu, device, NULL) AS device,
    lane AS stream, IF(bytes >= 0, bytes, NULL) AS bytes, grid, block,
    CASE shape
        WHEN 'kernel' THEN object(concat_ws(
            ',', member('dispatch_id', dispatch_id), member('queue_id', queue_id), member('kernel_id', kernel_id),
            member('private_segment_size', private_segment_size), member('group_segment_size', group_segment_size),
            member('arch_vgpr_count', arch_vgpr_count), member('accum_vgpr_count', accum_vgpr_count), member('sgpr_count', sgpr_count)
        ))
        WHEN 'copy' THEN copy_args
        WHEN 'allocation' THEN object(concat_ws(
            ',', member('address', address), member('bytes', size), member('device', device), text_member('device_type', device_type)
        ))
    END AS args
FROM linked;

CREATE VIEW flow_end AS
SELECT rank, correlation AS flow, is_call AS is_start, key FROM linked WHERE (on_gpu OR is_call) AND correlation IS NOT NULL;

CREATE VIEW instant AS
SELECT rank, key, cat, name, ts, track FROM event INNER JOIN spot USING (spot_key) WHERE is_mark;

CREATE VIEW counter AS
SELECT rank, key, sample.name, ts, value, track FROM sample INNER JOIN place ON owner_of(process, TRUE, device) = owner
INNER JOIN track USING (rank) WHERE track.pid = 'counters';

CREATE VIEW count AS
SELECT rank, phase, cat, CAST(SUM(events) AS BIGINT) AS events, CAST(SUM(dur) AS BIGINT) AS dur FROM (
    SELECT owner, 'slice' AS phase, COALESCE(cat, '') AS cat, events, dur FROM counted WHERE shape <> 'mark'
    UNION ALL
    SELECT owner, 'i', '', events, 0 FROM counted WHERE shape = 'mark'
    UNION ALL
    SELECT owner_of(process, TRUE, device), 'counter', '', 1, 0 FROM sample
)
INNER JOIN place USING (owner) WHERE events > 0 GROUP BY rank, phase, cat;

CREATE VIEW rank AS
SELECT
    rank,
    json_object(
        'form', getvariable('form'), 'schema', (SELECT FIRST(value ORDER BY rowid) FROM rocpd_metadata WHERE part = 0),
        'process', pid, 'process_name', redacted(rank_part.name), 'device', rank_part.device, 'device_name', agent.name,
        'architecture', architecture, 'place', rank
    ) AS metadata
FROM rank_part LEFT JOIN (
    SELECT process, device, arg_min(name, place) AS name, arg_min(architecture, place) AS architecture FROM agent WHERE is_listed
    GROUP BY process, device
) AS agent ON rank_part.process = agent.process AND rank_part.device IS NOT DISTINCT FROM agent.device;

CREATE VIEW launch AS SELECT rank, correlation, graph FROM linked WHERE is_call AND contains(name, 'GraphLaunch');
CREATE VIEW activity AS SELECT rank, correlation FROM linked WHERE on_gpu;
