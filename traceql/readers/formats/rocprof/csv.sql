-- noqa: disable=AM04,AM07
-- Columns go through by name.
-- The rows of CSV files become records, and the list of processors agents.
--
-- Files that `rocpd convert` made of several processes have a column `guid` in which they differ.
CREATE TABLE csv_process AS
WITH guids AS (SELECT DISTINCT guid FROM csv_row WHERE guid IS NOT NULL)

SELECT guid, row_number() OVER (ORDER BY guid) - 1 AS process
FROM guids
WHERE (SELECT COUNT(*) FROM guids) > 1
UNION ALL
SELECT NULL AS guid, 0 AS process
WHERE (SELECT COUNT(*) FROM guids) < 2;

CREATE VIEW csv_record AS
SELECT csv_row.* EXCLUDE (guid), process, csv_file.kind AS file_kind, csv_file.name AS file_name
FROM csv_row
INNER JOIN csv_file USING (file)
INNER JOIN csv_process
    ON csv_process.guid IS NOT DISTINCT FROM IF((SELECT COUNT(*) > 1 FROM csv_process), csv_row.guid, NULL);

-- A kernel's file names no process: it is that of the calls, or else that of the file's name.
INSERT INTO process BY NAME
SELECT process, COALESCE(called.pid, IF((SELECT COUNT(*) = 1 FROM csv_process), (SELECT MAX(pid) FROM csv_file), NULL)) AS pid
FROM csv_process
LEFT JOIN (SELECT process, mode(whole(process_id)) AS pid FROM csv_record GROUP BY process) AS called USING (process);

-- Records may call a processor by its absolute or its relative number, or by its type. A number may
-- stand for two of them: rocprofv3 counts in its relative way unless an option changes that.
CREATE VIEW listed_agent AS
SELECT
    process,
    row AS place,
    node_id,
    logical_node_id,
    COALESCE(NULLIF(product_name, ''), name) AS product,
    name,
    IF(
        agent_type = 'GPU',
        COUNT(*) FILTER (WHERE agent_type = 'GPU') OVER (PARTITION BY process ORDER BY row ROWS UNBOUNDED PRECEDING) - 1,
        NULL
    ) AS device
FROM csv_record
WHERE file_kind = 'agent_info';

INSERT INTO agent BY NAME
SELECT process, called, place, device, product AS name, name AS architecture
FROM (
    SELECT *, unnest(['GPU ' || device, 'Agent ' || node_id, node_id, 'Agent ' || logical_node_id]) AS called, generate_subscripts([1, 2, 3, 4], 1) AS way
    FROM listed_agent
)
WHERE called IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY process, called ORDER BY way = 4 DESC, place DESC) = 1;

-- Without a list of them, the number in the name of an agent is that of its GPU.
INSERT INTO agent BY NAME
SELECT process, called, whole(regexp_extract(called, '\d+')) AS device, FALSE AS is_listed
FROM (
    SELECT DISTINCT process, unnest([agent_id, source_agent_id, destination_agent_id]) AS called
    FROM csv_record
)
WHERE called <> '' AND (process, called) NOT IN (SELECT (process, called) FROM agent);

INSERT INTO unread SELECT process, 'rows of ' || name, unread FROM csv_file CROSS JOIN csv_process;
INSERT INTO not_loaded
SELECT process, 'of counters without times', COUNT(*)
FROM csv_record
WHERE counter_name IS NOT NULL AND start_timestamp IS NULL
GROUP BY process;

-- Versions have other columns: what a row is follows from those that are there.
CREATE VIEW text_record AS
SELECT
    process, file AS place, row, file_name AS origin, 'rows of ' || file_name AS what,
    CASE
        WHEN counter_name IS NOT NULL THEN 'counter'
        WHEN kernel_name IS NOT NULL AND agent_id IS NOT NULL THEN 'kernel'
        WHEN direction IS NOT NULL THEN 'copy'
        WHEN starts_with(lower(domain), 'marker_') AND whole(start_timestamp) = whole(end_timestamp) THEN 'mark'
        WHEN domain IS NOT NULL AND function IS NOT NULL THEN 'call'
        WHEN kind IS NOT NULL AND operation IS NOT NULL THEN 'allocation'
    END AS shape,
    COALESCE(domain, kind) AS cat,
    COALESCE(kernel_name, direction, function, operation) AS name,
    COALESCE(destination_agent_id, agent_id) AS agent_id,
    COALESCE(scratch_size, private_segment_size) AS private_segment_size,
    COALESCE(lds_block_size, group_segment_size) AS group_segment_size,
    vgpr_count AS arch_vgpr_count, NULL AS graph, NULL AS function, -- which has the text of a marker
    COALESCE(copy_bytes, allocation_size) AS size,
    hexadecimal(address) AS address,
    object(
        concat_ws(',', text_member('src_agent_id', source_agent_id), text_member('dst_agent_id', destination_agent_id))
    ) AS copy_args,
    start_timestamp, end_timestamp, thread_id, correlation_id, source_agent_id, direction, stream_id, queue_id, dispatch_id,
    kernel_id, accum_vgpr_count, sgpr_count, grid_size_x, grid_size_y, grid_size_z,
    workgroup_size_x, workgroup_size_y, workgroup_size_z, counter_name, counter_value
FROM csv_record
WHERE file_kind <> 'agent_info' AND (counter_name IS NULL OR start_timestamp IS NOT NULL);

-- Numbers that a locale or a spreadsheet has changed: 1,234 or 1.234E+15.
CREATE VIEW changed AS
SELECT file_name, row + 1 AS row, pair.name, pair.value
FROM (
    SELECT
        file_name,
        row,
        unnest([
            {'name': 'start_timestamp', 'value': IF(whole(start_timestamp) IS NULL, start_timestamp, NULL)},
            {'name': 'end_timestamp', 'value': IF(whole(end_timestamp) IS NULL, end_timestamp, NULL)},
            {'name': 'counter_value', 'value': IF(regexp_full_match(counter_value, '\s*-?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?\s*'), NULL, counter_value)}
        ]) AS pair
    FROM csv_record
)
WHERE regexp_full_match(pair.value, '\s*-?[0-9]+([.,''\s\x{00a0}\x{202f}][0-9]+)+([eE][+-]?[0-9]+)?\s*')
ORDER BY file_name, row;
