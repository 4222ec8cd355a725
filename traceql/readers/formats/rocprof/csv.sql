-- noqa: disable=AM04,AM07
-- Columns go through by name.
-- The rows of CSV files become records, and the list of processors agents.
--
-- Files that `rocpd convert` made of several processes have a column `guid` in which they differ.
CREATE VIEW csv_record AS
WITH guids AS (
    SELECT guid, row_number() OVER (ORDER BY guid) - 1 AS process FROM csv_row WHERE guid IS NOT NULL GROUP BY guid
)

SELECT csv_row.* EXCLUDE (guid), COALESCE(process, 0) AS process, csv_file.kind AS file_kind, csv_file.name AS file_name
FROM csv_row INNER JOIN csv_file USING (file) LEFT JOIN guids USING (guid);

-- A kernel's file names no process: it is that of the calls, or else that of the file's name.
INSERT INTO process BY NAME
SELECT process, COALESCE(mode(whole(process_id)), IF(COUNT(*) OVER () = 1, (SELECT MAX(pid) FROM csv_file), NULL)) AS pid
FROM csv_record GROUP BY process;

-- Records may call a processor by its absolute or its relative number, or by its type. A number may
-- stand for two of them: rocprofv3 counts in its relative way unless an option changes that.
INSERT INTO agent BY NAME
WITH listed AS (
    SELECT
        process, row AS place, node_id, logical_node_id, COALESCE(NULLIF(product_name, ''), name) AS name, name AS architecture,
        IF(agent_type = 'GPU', COUNT(*) FILTER (agent_type = 'GPU') OVER before_it - 1, NULL) AS device
    FROM csv_record WHERE file_kind = 'agent_info' WINDOW before_it AS (PARTITION BY process ORDER BY row ROWS UNBOUNDED PRECEDING)
)

SELECT process, called, place, device, name, architecture FROM (
    SELECT
        *, generate_subscripts([1, 2, 3, 4], 1) AS way,
        unnest(['GPU ' || device, 'Agent ' || node_id, node_id, 'Agent ' || logical_node_id]) AS called
    FROM listed
)
WHERE called IS NOT NULL QUALIFY row_number() OVER (PARTITION BY process, called ORDER BY way = 4 DESC, place DESC) = 1;

-- Without a list of them, the number in the name of an agent is that of its GPU.
INSERT INTO agent BY NAME
SELECT process, called, whole(regexp_extract(called, '\d+')) AS device, FALSE AS is_listed
FROM (SELECT DISTINCT process, unnest([agent_id, source_agent_id, destination_agent_id]) AS called FROM csv_record)
ANTI JOIN agent USING (process, called) WHERE called <> '';

INSERT INTO unread SELECT process, 'rows of ' || csv_file.name, unread FROM csv_file CROSS JOIN process;
INSERT INTO not_loaded
SELECT process, 'of counters without times', COUNT(*) FROM csv_record WHERE counter_name IS NOT NULL AND start_timestamp IS NULL
GROUP BY process;

-- Versions have other columns: what a row is follows from those that are there.
CREATE VIEW text_record AS
SELECT
    * EXCLUDE (
        kind, name, file, file_kind, file_name, agent_id, private_segment_size, group_segment_size, scratch_size, lds_block_size,
        vgpr_count, allocation_size, address, function
    ),
    file AS place, file_name AS origin, 'rows of ' || file_name AS what,
    CASE
        WHEN counter_name IS NOT NULL THEN 'counter'
        WHEN kernel_name IS NOT NULL AND agent_id IS NOT NULL THEN 'kernel'
        WHEN direction IS NOT NULL THEN 'copy'
        WHEN starts_with(lower(domain), 'marker_') AND whole(start_timestamp) = whole(end_timestamp) THEN 'mark'
        WHEN domain IS NOT NULL AND function IS NOT NULL THEN 'call'
        WHEN kind IS NOT NULL AND operation IS NOT NULL THEN 'allocation'
    END AS shape,
    COALESCE(domain, kind) AS cat, COALESCE(kernel_name, direction, function, operation) AS name,
    COALESCE(destination_agent_id, agent_id) AS agent_id, COALESCE(scratch_size, private_segment_size) AS private_segment_size,
    COALESCE(lds_block_size, group_segment_size) AS group_segment_size, vgpr_count AS arch_vgpr_count,
    COALESCE(copy_bytes, allocation_size) AS size, hexadecimal(address) AS address,
    CAST(NULL AS VARCHAR) AS graph, CAST(NULL AS VARCHAR) AS function, -- which has the text of a marker
    object(
        concat_ws(',', text_member('src_agent_id', source_agent_id), text_member('dst_agent_id', destination_agent_id))
    ) AS copy_args
FROM csv_record WHERE file_kind <> 'agent_info' AND (counter_name IS NULL OR start_timestamp IS NOT NULL);

-- Numbers that a locale or a spreadsheet has changed: 1,234 or 1.234E+15.
CREATE VIEW changed AS
SELECT file_name, row + 1 AS row, name, value FROM (
    SELECT
        file_name, row, unnest(['start_timestamp', 'end_timestamp', 'counter_value']) AS name,
        unnest([start_timestamp, end_timestamp, counter_value]) AS value
    FROM csv_record
)
WHERE
    regexp_full_match(value, '\s*-?[0-9]+([.,''\s\x{00a0}\x{202f}][0-9]+)+([eE][+-]?[0-9]+)?\s*')
    AND (name <> 'counter_value' OR NOT regexp_full_match(value, '\s*-?[0-9]*\.?[0-9]+([eE][+-]?[0-9]+)?\s*'))
ORDER BY file_name, row;
