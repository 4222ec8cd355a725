-- noqa: disable=RF01
-- Fields of structs are not tables.
-- The lists of JSON become agents and records.
INSERT INTO agent BY NAME
SELECT
    process,
    fields.id.handle AS called,
    row AS place,
    IF(
        fields.type = '2',
        COALESCE(
            whole(fields.logical_node_type_id),
            COUNT(*) FILTER (WHERE fields.type = '2') OVER (PARTITION BY process ORDER BY row ROWS UNBOUNDED PRECEDING) - 1
        ),
        NULL
    ) AS device,
    COALESCE(NULLIF(fields.product_name, ''), fields.name) AS name,
    fields.name AS architecture
FROM (
    SELECT process, row, json_transform(record, '{
        "id": {"handle": "VARCHAR"}, "type": "VARCHAR", "logical_node_type_id": "VARCHAR",
        "name": "VARCHAR", "product_name": "VARCHAR"
    }') AS fields
    FROM json_record
    WHERE list = 'agents'
)
QUALIFY row_number() OVER (PARTITION BY process, fields.id.handle ORDER BY row DESC) = 1;

-- Kinds of records, and the operations of each, by their place in a list.
CREATE TABLE json_operation AS
SELECT process, row AS kind, record ->> '$.kind' AS cat, CAST(record ->> '$.operations' AS VARCHAR[]) AS names
FROM json_record
WHERE list = 'kinds';

CREATE TABLE json_message AS
SELECT process, record ->> '$.key' AS key, arg_max(record ->> '$.value', row) AS text
FROM json_record
WHERE list = 'messages'
GROUP BY process, record ->> '$.key';

CREATE TABLE json_symbol AS
SELECT
    process, fields.kernel_id AS id, fields.arch_vgpr_count, fields.accum_vgpr_count, fields.sgpr_count,
    COALESCE(
        NULLIF(fields.formatted_kernel_name, ''), NULLIF(fields.demangled_kernel_name, ''), NULLIF(fields.kernel_name, '')
    ) AS name
FROM (
    SELECT process, json_transform(record, '{
        "kernel_id": "VARCHAR", "formatted_kernel_name": "VARCHAR", "demangled_kernel_name": "VARCHAR",
        "kernel_name": "VARCHAR", "arch_vgpr_count": "VARCHAR", "accum_vgpr_count": "VARCHAR", "sgpr_count": "VARCHAR"
    }') AS fields
    FROM json_record
    WHERE list = 'kernel_symbols'
);

CREATE TABLE json_counter AS
SELECT process, record ->> '$.id.handle' AS id, record ->> '$.name' AS name FROM json_record WHERE list = 'counters';

CREATE TABLE json_list AS
FROM (
    VALUES
    ('kernel_dispatch', 'kernel', 0), ('memory_copy', 'copy', 1), ('hip_api', 'call', 2), ('hsa_api', 'call', 3),
    ('marker_api', 'call', 4), ('rccl_api', 'call', 5), ('rocdecode_api', 'call', 6), ('rocjpeg_api', 'call', 7),
    ('memory_allocation', 'allocation', 8), ('scratch_memory', 'allocation', 9), ('counter_collection', 'counter', 10)
) AS lists (list, shape, place);

-- The record of a counter has the kernel in `dispatch_data`, and a value for each of its units.
CREATE VIEW json_cell AS
SELECT *, unnest(IF(shape = 'counter' AND len(fields.records) > 0, fields.records, [NULL])) AS unit
FROM (
    SELECT process, list, shape, place, row, json_transform(
        IF(shape = 'counter', json_merge_patch(CAST(record AS JSON), CAST(record AS JSON) -> 'dispatch_data'), record), '{
            "kind": "VARCHAR", "operation": "VARCHAR", "start_timestamp": "VARCHAR", "end_timestamp": "VARCHAR",
            "thread_id": "VARCHAR", "correlation_id": {"internal": "VARCHAR"}, "stream_id": {"handle": "VARCHAR"},
            "dispatch_info": {
                "agent_id": {"handle": "VARCHAR"}, "kernel_id": "VARCHAR", "dispatch_id": "VARCHAR",
                "queue_id": {"handle": "VARCHAR"}, "private_segment_size": "VARCHAR", "group_segment_size": "VARCHAR",
                "workgroup_size": {"x": "VARCHAR", "y": "VARCHAR", "z": "VARCHAR"},
                "grid_size": {"x": "VARCHAR", "y": "VARCHAR", "z": "VARCHAR"}
            },
            "dst_agent_id": {"handle": "VARCHAR"}, "src_agent_id": {"handle": "VARCHAR"}, "bytes": "VARCHAR",
            "agent_id": {"handle": "VARCHAR"}, "allocation_size": "VARCHAR", "address": "JSON", "args": "JSON",
            "records": [{"counter_id": {"handle": "VARCHAR"}, "value": "VARCHAR"}]
        }'
    ) AS fields
    FROM json_record
    INNER JOIN json_list USING (list)
);

CREATE TABLE text_record AS
SELECT
    cell.process, place, cell.row, cell.list AS origin, cell.list AS what,
    IF(cell.list = 'marker_api' AND function = 'roctxMarkA', 'mark', shape) AS shape,
    COALESCE(cell.cat, 'kind ' || fields.kind) AS cat,
    CASE
        WHEN shape IN ('kernel', 'counter') THEN COALESCE(symbol.name, 'kernel ' || fields.dispatch_info.kernel_id)
        ELSE COALESCE(message.text, function)
    END AS name,
    function, fields.start_timestamp, fields.end_timestamp, fields.thread_id, fields.correlation_id.internal AS correlation_id,
    COALESCE(fields.dispatch_info.agent_id.handle, fields.dst_agent_id.handle, fields.agent_id.handle) AS agent_id,
    fields.src_agent_id.handle AS source_agent_id, NULL AS direction,
    object(
        concat_ws(',', member('dst_agent_id', fields.dst_agent_id.handle), member('src_agent_id', fields.src_agent_id.handle))
    ) AS copy_args,
    fields.stream_id.handle AS stream_id, fields.dispatch_info.queue_id.handle AS queue_id,
    fields.dispatch_info.dispatch_id, fields.dispatch_info.kernel_id,
    fields.dispatch_info.private_segment_size, fields.dispatch_info.group_segment_size,
    arch_vgpr_count, accum_vgpr_count, sgpr_count,
    fields.dispatch_info.grid_size.x AS grid_size_x, fields.dispatch_info.workgroup_size.x AS workgroup_size_x,
    fields.dispatch_info.grid_size.y AS grid_size_y, fields.dispatch_info.workgroup_size.y AS workgroup_size_y,
    fields.dispatch_info.grid_size.z AS grid_size_z, fields.dispatch_info.workgroup_size.z AS workgroup_size_z,
    COALESCE(fields.bytes, fields.allocation_size) AS size,
    CASE json_type(fields.address)
        WHEN 'VARCHAR' THEN hexadecimal(fields.address ->> '$')
        WHEN 'OBJECT' THEN TRY_CAST(fields.address ->> '$.handle' AS UBIGINT)
        ELSE TRY_CAST(fields.address ->> '$' AS UBIGINT)
    END AS address,
    CASE json_type(fields.args)
        WHEN 'OBJECT' THEN fields.args ->> '$.graphExec'
        WHEN 'ARRAY'
            THEN list_filter(
                json_transform(fields.args, '[{"name": "VARCHAR", "value": "VARCHAR"}]'), lambda arg: arg.name = 'graphExec'
            )[1].value
    END AS graph,
    IF(unit IS NULL, NULL, COALESCE(counter.name, 'counter ' || unit.counter_id.handle)) AS counter_name,
    unit.value AS counter_value
FROM (
    SELECT
        json_cell.*, operation.cat,
        COALESCE(names[COALESCE(whole(fields.operation), 0) + 1], 'operation ' || COALESCE(fields.operation, '0')) AS function
    FROM json_cell
    LEFT JOIN json_operation AS operation ON json_cell.process = operation.process AND whole(fields.kind) = operation.kind
) AS cell
LEFT JOIN json_message AS message
    ON cell.list = 'marker_api' AND cell.process = message.process AND fields.correlation_id.internal = message.key
LEFT JOIN json_symbol AS symbol ON cell.process = symbol.process AND fields.dispatch_info.kernel_id = symbol.id
LEFT JOIN json_counter AS counter ON cell.process = counter.process AND unit.counter_id.handle = counter.id;

INSERT INTO not_loaded
SELECT process, 'of counters without times', COUNT(DISTINCT row)
FROM text_record
WHERE shape = 'counter' AND NOT has_time(whole(start_timestamp))
GROUP BY process
UNION ALL
SELECT process, list, COUNT(*)
FROM json_record
WHERE list NOT IN (SELECT list FROM json_list UNION ALL VALUES ('agents'), ('kernel_symbols'), ('counters'), ('kinds'), ('messages'))
GROUP BY process, list;

DELETE FROM text_record WHERE shape = 'counter' AND NOT has_time(whole(start_timestamp));
