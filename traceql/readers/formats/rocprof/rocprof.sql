-- noqa: disable=AM04,AM07
-- Columns go through by name.
-- Records and samples of rocprofv3 become the relations of the reader contract.
--
-- A rank is a process and one of its GPUs. Threads belong to the GPU that they launched most on.
-- Processes without a GPU, such as an API server, are with the first rank.
-- AMD counts the grid in threads.
CREATE MACRO blocks(threads, size) AS CASE WHEN threads > 0 AND size > 0 THEN (threads - 1) // size + 1 END;

CREATE VIEW event AS
SELECT
    process, row_key(process, place, row) AS key, shape, cat, thread_id AS thread, graph,
    IF(shape = 'copy', COALESCE(getvariable('copies')[name], name), name) AS name,
    begin AS ts,
    finish - begin AS dur,
    shape IN ('kernel', 'copy') AS on_gpu,
    IF(on_gpu, device, thread_id) AS number,
    IF(on_gpu, device, NULL) AS device,
    IF(on_gpu, stream_id, NULL) AS stream,
    IF(on_gpu, queue_id, NULL) AS queue,
    -- Ranges and memory need not nest with the calls of their thread.
    CASE WHEN shape = 'allocation' THEN 2 WHEN function IN getvariable('ranges') THEN 1 ELSE 0 END AS kind,
    NULLIF(correlation_id, 0) AS correlation,
    IF(shape = 'kernel', dispatch_id, NULL) AS dispatch,
    CASE shape
        WHEN 'kernel'
            THEN object(
                concat_ws(
                    ',', member('dispatch_id', dispatch_id), member('queue_id', queue_id), member('kernel_id', kernel_id),
                    member('private_segment_size', private_segment_size), member('group_segment_size', group_segment_size),
                    member('arch_vgpr_count', arch_vgpr_count), member('accum_vgpr_count', accum_vgpr_count),
                    member('sgpr_count', sgpr_count)
                )
            )
        WHEN 'copy' THEN copy_args
        WHEN 'allocation'
            THEN object(
                concat_ws(
                    ',', member('address', address), member('bytes', size), member('device', record.device),
                    text_member('device_type', device_type)
                )
            )
    END AS args,
    IF(shape = 'copy', size, NULL) AS bytes,
    triple(
        blocks(grid_size_x, workgroup_size_x), blocks(grid_size_y, workgroup_size_y), blocks(grid_size_z, workgroup_size_z)
    ) AS grid,
    triple(workgroup_size_x, workgroup_size_y, workgroup_size_z) AS block,
    COALESCE(grid_size_x, grid_size_y, grid_size_z, workgroup_size_x, workgroup_size_y, workgroup_size_z) IS NOT NULL AS has_size,
    lower(cat) IN getvariable('calls') AS is_call
FROM record
WHERE is_loaded(begin, finish) AND shape IN ('kernel', 'copy', 'call', 'allocation');

CREATE VIEW mark AS
SELECT process, row_key(process, place, row) AS key, cat, name, begin AS ts, thread_id AS thread
FROM record
WHERE shape = 'mark' AND is_loaded(begin, finish);

CREATE TABLE counted AS
SELECT
    process, shape, cat, IF(shape IN ('kernel', 'copy'), device, thread_id) AS number,
    COUNT(*) FILTER (WHERE is_loaded(begin, finish)) AS events,
    COALESCE(SUM(finish - begin) FILTER (WHERE is_loaded(begin, finish)), 0) AS dur,
    COUNT(*) FILTER (WHERE NOT has_time(begin)) AS without_times,
    COUNT(*) FILTER (WHERE is_backward(begin, finish)) AS backward,
    min_by(format('{}, row {}: ', origin, row + 1) || time_problem(begin, finish), (origin, row))
        FILTER (WHERE has_time(begin) AND time_problem(begin, finish) IS NOT NULL) AS problem
FROM record
GROUP BY process, shape, cat, IF(shape IN ('kernel', 'copy'), device, thread_id);

CREATE TABLE gpu AS
SELECT process, device, bool_or(is_kernel) AS has_kernels
FROM (
    SELECT process, device, dispatch IS NOT NULL AS is_kernel FROM event WHERE on_gpu
    UNION ALL
    SELECT process, device, FALSE AS is_kernel FROM sample
)
GROUP BY process, device;

CREATE TABLE rank_part AS
WITH chosen AS (
    SELECT process, device
    FROM gpu
    WHERE device IS NOT NULL
    QUALIFY has_kernels OR NOT bool_or(has_kernels) OVER (PARTITION BY process)
    UNION ALL
    SELECT process, NULL AS device FROM gpu GROUP BY process HAVING COUNT(device) = 0
)

SELECT
    process, device, pid, name,
    row_number() OVER (ORDER BY COALESCE(pid, 0), process, device) - 1 AS rank,
    row_number() OVER (PARTITION BY process ORDER BY device) = 1 AS is_first
FROM chosen
INNER JOIN process USING (process);

-- The rank of each GPU and each thread.
CREATE TABLE place AS
WITH launching AS (
    SELECT process, thread, device
    FROM (
        SELECT process, thread, device, COUNT(*) AS events, MIN(key) AS first_key FROM event WHERE on_gpu GROUP BY process, thread, device
    )
    QUALIFY row_number() OVER (PARTITION BY process, thread ORDER BY events DESC, first_key) = 1
),

host AS (
    SELECT process, thread FROM event WHERE NOT on_gpu
    UNION
    SELECT process, thread FROM mark
),

placed AS (
    SELECT process, TRUE AS on_gpu, device AS number, device FROM gpu
    UNION ALL
    SELECT host.process, FALSE AS on_gpu, host.thread AS number, device
    FROM host
    LEFT JOIN launching ON host.process = launching.process AND host.thread IS NOT DISTINCT FROM launching.thread
)

SELECT placed.process, on_gpu, number, COALESCE(own.rank, first.rank, 0) AS rank
FROM placed
LEFT JOIN rank_part AS own ON placed.process = own.process AND placed.device IS NOT DISTINCT FROM own.device
LEFT JOIN rank_part AS first ON placed.process = first.process AND first.is_first;

-- The track of each kind of event. The stream of an activity is HIP's, or the queue of the GPU where
-- no streams were recorded.
CREATE TABLE spot AS
WITH spots AS (
    SELECT DISTINCT process, on_gpu, number, stream, queue, kind, TRUE AS has_slices FROM event
    UNION ALL BY NAME
    SELECT DISTINCT process, FALSE AS on_gpu, thread AS number, 0 AS kind, FALSE AS has_slices FROM mark
),

laned AS (
    SELECT spots.*, rank, IF(bool_or(stream > 0) OVER (PARTITION BY rank), stream, COALESCE(queue, stream)) AS lane
    FROM spots
    INNER JOIN place
        ON spots.process = place.process AND spots.on_gpu = place.on_gpu AND spots.number IS NOT DISTINCT FROM place.number
),

keyed AS (
    SELECT *, (process, on_gpu, COALESCE(number, -1), IF(on_gpu, COALESCE(lane, -1), -1), kind) AS track_key
    FROM laned
)

SELECT * EXCLUDE (slices_first), dense_rank() OVER (PARTITION BY rank ORDER BY slices_first, track_key) - 1 AS track
FROM (SELECT *, NOT bool_or(has_slices) OVER (PARTITION BY rank, track_key) AS slices_first FROM keyed);

CREATE VIEW track AS
WITH tracks AS (
    SELECT DISTINCT
        rank, track, on_gpu, kind, process.pid, process.name,
        NULLIF(track_key[3], -1) AS number, NULLIF(track_key[4], -1) AS stream,
        COALESCE(CAST(number AS VARCHAR), 'unknown thread') || ['', ' ranges', ' memory'][kind + 1] AS thread
    FROM spot
    INNER JOIN process USING (process)
)

SELECT
    rank, track, IF(on_gpu, number, pid) AS slice_pid, IF(on_gpu, stream, number) AS slice_tid,
    CAST(slice_pid AS VARCHAR) AS pid,
    IF(on_gpu OR kind = 0, CAST(slice_tid AS VARCHAR), thread) AS tid,
    IF(on_gpu, concat_ws(' ', 'GPU', number), shown(name)) AS process_name,
    IF(on_gpu, COALESCE('stream ' || stream, 'no stream'), thread) AS thread_name,
    IF(on_gpu, process_name, NULL) AS process_labels
FROM tracks
UNION ALL BY NAME
SELECT placed.rank, COALESCE(MAX(track) + 1, 0) AS track, 'counters' AS pid, 'counters' AS process_name
FROM sample
INNER JOIN place AS placed ON sample.process = placed.process AND on_gpu AND device IS NOT DISTINCT FROM number
LEFT JOIN (SELECT rank, MAX(track) AS track FROM spot GROUP BY rank) AS spot ON placed.rank = spot.rank
GROUP BY placed.rank;

-- Numbers of other processes than that of the rank are the same, and mean other calls.
CREATE VIEW placed AS
SELECT
    event.* EXCLUDE (correlation), rank_part.rank, lane, track, event.process = rank_part.process AS is_own,
    IF(is_own, correlation, NULL) AS correlation
FROM event
INNER JOIN spot
    ON event.process = spot.process
    AND event.on_gpu = spot.on_gpu
    AND event.number IS NOT DISTINCT FROM spot.number
    AND event.stream IS NOT DISTINCT FROM spot.stream
    AND event.queue IS NOT DISTINCT FROM spot.queue
    AND event.kind = spot.kind
    AND spot.has_slices
INNER JOIN rank_part USING (rank);

-- A kernel has the correlation of the innermost call that was traced. Where HSA was traced too, that
-- is a call of HSA inside the call of HIP that launched it, whose correlation it gets.
CREATE TABLE moved AS
WITH stray AS (
    SELECT rank, correlation FROM placed WHERE NOT is_call AND correlation IS NOT NULL
    EXCEPT
    SELECT rank, correlation FROM placed WHERE is_call
),

calls AS (
    SELECT rank, COALESCE(thread, -1) AS thread, ts, max_by((ts + dur, COALESCE(correlation, 0)), key) AS call
    FROM placed
    WHERE is_call AND is_own
    GROUP BY rank, COALESCE(thread, -1), ts
)

SELECT nested.rank, nested.correlation, max_by(call[2], nested.key) AS call_correlation
FROM placed AS nested
SEMI JOIN stray USING (rank, correlation)
ASOF JOIN calls ON nested.rank = calls.rank AND COALESCE(nested.thread, -1) = calls.thread AND nested.ts >= calls.ts
WHERE NOT on_gpu AND nested.ts + nested.dur <= call[1]
GROUP BY nested.rank, nested.correlation;

CREATE VIEW linked AS
SELECT
    placed.* EXCLUDE (correlation),
    IF(on_gpu AND call_correlation IS NOT NULL, NULLIF(call_correlation, 0), correlation) AS correlation
FROM placed
LEFT JOIN moved USING (rank, correlation);

CREATE VIEW slice AS
SELECT
    rank, key, cat, name, ts, dur, track, correlation, args, on_gpu AS is_activity, device, lane AS stream,
    IF(bytes >= 0, bytes, NULL) AS bytes, grid, block
FROM linked;

CREATE VIEW flow_end AS
SELECT rank, correlation AS flow, is_call AS is_start, key FROM linked WHERE (on_gpu OR is_call) AND correlation IS NOT NULL;

CREATE VIEW instant AS
SELECT spot.rank, key, cat, name, ts, track
FROM mark
INNER JOIN spot ON mark.process = spot.process AND mark.thread IS NOT DISTINCT FROM spot.number AND NOT spot.has_slices;

CREATE VIEW counter AS
SELECT rank, key, sample.name, ts, value, track
FROM sample
INNER JOIN place ON sample.process = place.process AND on_gpu AND device IS NOT DISTINCT FROM number
INNER JOIN track USING (rank)
WHERE track.pid = 'counters';

CREATE VIEW count AS
SELECT rank, phase, cat, CAST(SUM(events) AS BIGINT) AS events, CAST(SUM(dur) AS BIGINT) AS dur
FROM (
    SELECT process, 'slice' AS phase, COALESCE(cat, '') AS cat, shape IN ('kernel', 'copy') AS on_gpu, number, events, dur
    FROM counted
    WHERE shape <> 'mark'
    UNION ALL
    SELECT process, 'i' AS phase, '' AS cat, FALSE AS on_gpu, number, events, 0 AS dur FROM counted WHERE shape = 'mark'
    UNION ALL
    SELECT process, 'counter' AS phase, '' AS cat, TRUE AS on_gpu, device AS number, 1 AS events, 0 AS dur FROM sample
) AS found
INNER JOIN place
    ON found.process = place.process AND found.on_gpu = place.on_gpu AND found.number IS NOT DISTINCT FROM place.number
WHERE events > 0
GROUP BY rank, phase, cat;

CREATE VIEW rank AS
SELECT
    rank,
    json_object(
        'form', getvariable('form'), 'schema', getvariable('schema'), 'process', pid, 'process_name', shown(rank_part.name),
        'device', rank_part.device, 'device_name', agent.name, 'architecture', agent.architecture, 'place', rank
    ) AS metadata
FROM rank_part
LEFT JOIN (
    SELECT process, device, arg_min(name, place) AS name, arg_min(architecture, place) AS architecture
    FROM agent
    WHERE is_listed
    GROUP BY process, device
) AS agent ON rank_part.process = agent.process AND rank_part.device IS NOT DISTINCT FROM agent.device;

CREATE VIEW launch AS
SELECT rank, correlation, graph FROM linked WHERE is_call AND contains(name, 'GraphLaunch');

CREATE VIEW activity AS
SELECT rank, correlation FROM linked WHERE on_gpu;
