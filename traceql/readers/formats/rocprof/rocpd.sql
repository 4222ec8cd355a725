-- noqa: disable=AM04,AM07
-- Columns go through by name.
-- The tables of databases become processes, agents, records and samples.
--
-- Ids refer to rows of the same part. A part with several processes has the number of one in each row.
CREATE TABLE part_process AS
SELECT
    part, id AS number, pid, command, COUNT(*) OVER (PARTITION BY part) = 1 AS is_only,
    row_number() OVER (ORDER BY part, id) - 1 AS process
FROM rocpd_info_process WHERE id IS NOT NULL;

INSERT INTO process SELECT process, pid, command FROM part_process;

CREATE TABLE part_agent AS
SELECT
    part, id, COALESCE(NULLIF(product_name, ''), name) AS product, name,
    IF(type = 'GPU', COALESCE(type_index, COUNT(*) FILTER (type = 'GPU') OVER before_it - 1), NULL) AS device
FROM rocpd_info_agent WINDOW before_it AS (PARTITION BY part ORDER BY id, rowid ROWS UNBOUNDED PRECEDING)
QUALIFY row_number() OVER (PARTITION BY part, id ORDER BY rowid DESC) = 1;

INSERT INTO agent BY NAME
SELECT process, CAST(id AS VARCHAR) AS called, id AS place, device, product AS name, part_agent.name AS architecture FROM part_agent
INNER JOIN part_process USING (part);

-- Samples without a value are marks. Their text is that of the event, or else the name of their track.
CREATE VIEW part_record AS
SELECT 0 AS place, rowid AS row, 'kernel' AS shape, 'KERNEL_DISPATCH' AS cat, * FROM rocpd_kernel_dispatch
UNION ALL BY NAME
SELECT 1 AS place, rowid AS row, 'copy' AS shape, 'MEMORY_COPY' AS cat, * RENAME (dst_agent_id AS agent_id) FROM rocpd_memory_copy
UNION ALL BY NAME
SELECT 2 AS place, rowid AS row, 'call' AS shape, * FROM rocpd_region
UNION ALL BY NAME
SELECT
    3 AS place, rowid AS row, 'allocation' AS shape, * EXCLUDE (type, level),
    IF(level = 'SCRATCH', 'SCRATCH_MEMORY', 'MEMORY_ALLOCATION') AS cat,
    CASE level WHEN 'SCRATCH' THEN 'SCRATCH_MEMORY_' WHEN 'VIRTUAL' THEN 'MEMORY_ALLOCATION_VMEM_' ELSE 'MEMORY_ALLOCATION_' END
    || IF(type = 'ALLOC' AND level IS DISTINCT FROM 'SCRATCH', 'ALLOCATE', type) AS name
FROM rocpd_memory_allocate
UNION ALL BY NAME
SELECT 4 AS place, sample.rowid AS row, 'mark' AS shape, track.* EXCLUDE (id), event_id, timestamp AS start, timestamp AS "end"
FROM rocpd_sample AS sample ANTI JOIN rocpd_pmc_event USING (part, event_id)
INNER JOIN rocpd_track AS track ON sample.part = track.part AND track_id = track.id;

CREATE TABLE record AS
SELECT
    process, record.* EXCLUDE (part, pid, tid, start, "end", agent_id, src_agent_id, name_id, event_id, cat, name),
    ['kernel_dispatch', 'memory_copy', 'region', 'memory_allocate', 'sample'][place + 1] AS origin,
    COALESCE(record.cat, category.string) AS cat,
    CASE shape
        WHEN 'kernel' THEN COALESCE(NULLIF(display_name, ''), kernel_name, 'kernel ' || record.kernel_id)
        WHEN 'copy' THEN text.string
        WHEN 'allocation' THEN record.name
        ELSE COALESCE(IF(json_valid(extdata), json_extract_string(extdata, '$.message'), NULL), text.string)
    END AS name,
    text.string AS function, start AS begin, "end" AS finish, COALESCE(thread.tid, record.tid) AS thread_id,
    NULLIF(stack_id, 0) AS correlation_id, COALESCE(agent.device, source.device) AS device,
    IF(agent.device IS NOT NULL, 'hip', IF(record.agent_id IS NOT NULL, 'cpu', NULL)) AS device_type,
    arch_vgpr_count, accum_vgpr_count, sgpr_count, graph.value AS graph,
    IF(shape = 'copy', object(concat_ws(',', member('dst_agent_id', agent_id), member('src_agent_id', src_agent_id))), NULL) AS copy_args
FROM part_record AS record INNER JOIN part_process AS process ON record.part = process.part AND (is_only OR record.pid = number)
LEFT JOIN (SELECT part, id, arg_min(tid, rowid) AS tid FROM rocpd_info_thread GROUP BY part, id) AS thread
    ON record.part = thread.part AND record.tid = thread.id
LEFT JOIN part_agent AS agent ON record.part = agent.part AND agent_id = agent.id
LEFT JOIN part_agent AS source ON record.part = source.part AND src_agent_id = source.id
LEFT JOIN rocpd_event AS event ON record.part = event.part AND record.event_id = event.id
LEFT JOIN rocpd_string AS category ON record.part = category.part AND category_id = category.id
LEFT JOIN rocpd_string AS text ON record.part = text.part AND name_id = text.id
LEFT JOIN rocpd_info_kernel_symbol AS symbol ON record.part = symbol.part AND record.kernel_id = symbol.id
LEFT JOIN message ON record.part = message.part AND record.event_id = message.id
LEFT JOIN (SELECT part, event_id, MAX(value) AS value FROM graph GROUP BY part, event_id) AS graph
    ON record.part = graph.part AND record.event_id = graph.event_id;

-- Every row is one record, unless a column names no process, or one of several rows of an id.
INSERT INTO unread
SELECT 0, 'tables of events, or found twice', abs((SELECT COUNT(*) FROM part_record) - (SELECT COUNT(*) FROM record));

-- Counters of a kernel, which are summed over its units, and those that were sampled over time.
INSERT INTO sample BY NAME
SELECT process, row_key(process, place, row) AS key, pmc.name, any_value(ts) AS ts, SUM(value) AS value, any_value(device) AS device
FROM (
    SELECT 0 AS place, rowid AS row, part, pid, event_id, start AS ts, agent_id FROM rocpd_kernel_dispatch WHERE is_loaded(start, "end")
    UNION ALL BY NAME
    SELECT 4 AS place, rowid AS row, part, event_id, timestamp AS ts FROM rocpd_sample
) AS record
INNER JOIN rocpd_pmc_event USING (part, event_id) INNER JOIN rocpd_info_pmc AS pmc ON record.part = pmc.part AND pmc_id = pmc.id
INNER JOIN part_process AS process ON record.part = process.part AND (is_only OR COALESCE(record.pid, pmc.pid) = number)
LEFT JOIN part_agent AS agent ON record.part = agent.part AND COALESCE(record.agent_id, pmc.agent_id) = agent.id
GROUP BY process, place, row, pmc.name;
