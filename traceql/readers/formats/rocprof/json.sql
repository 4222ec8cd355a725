-- noqa: disable=RF01
-- Fields of structs are not tables.
-- The lists of JSON become agents and records.
INSERT INTO agent BY NAME
SELECT
    process, fields.id.handle AS called, row AS place, COALESCE(NULLIF(fields.product_name, ''), fields.name) AS name,
    fields.name AS architecture,
    CASE WHEN fields.type = '2' THEN COALESCE(
        whole(fields.logical_node_type_id),
        COUNT(*) FILTER (fields.type = '2') OVER (PARTITION BY process ORDER BY row ROWS UNBOUNDED PRECEDING) - 1
    ) END AS device
FROM (
    SELECT process, row, json_transform(record, '{
        "id": {"handle": "VARCHAR"}, "type": "VARCHAR", "logical_node_type_id": "VARCHAR",
        "name": "VARCHAR", "product_name": "VARCHAR"
    }') AS fields
    FROM json_record WHERE list = 'agents'
)
QUALIFY row_number() OVER (PARTITION BY process, fields.id.handle ORDER BY row DESC) = 1;

CREATE TABLE json_list AS
FROM (
    VALUES
    ('kernel_dispatch', 'kernel', 0), ('memory_copy', 'copy', 1), ('hip_api', 'call', 2), ('hsa_api', 'call', 3),
    ('marker_api', 'call', 4), ('rccl_api', 'call', 5), ('rocdecode_api', 'call', 6), ('rocjpeg_api', 'call', 7),
    ('memory_allocation', 'allocation', 8), ('scratch_memory', 'allocation', 9), ('counter_collection', 'counter', 10)
) AS lists (list, shape, place);

-- The record of a counter has the kernel in `dispatch_data`, and a value for each of its units.
CREATE TABLE text_record AS
WITH cell AS (
    SELECT *, unnest(IF(shape = 'counter' AND len(fields.records) > 0, fields.records, [NULL])) AS unit, fields.dispatch_info AS info
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
        FROM json_record INNER JOIN json_list USING (list)
    )
),

-- Kinds of records, and the operations of each, by their place in a list.
operation AS (
    SELECT process, row AS kind, record ->> '$.kind' AS cat, CAST(record ->> '$.operations' AS VARCHAR[]) AS names FROM json_record
    WHERE list = 'kinds'
),

message AS (
    SELECT process, record ->> '$.key' AS key, arg_max(record ->> '$.value', row) AS text FROM json_record WHERE list = 'messages'
    GROUP BY process, record ->> '$.key'
),

symbol AS (
    SELECT process, unnest(json_transform(record, '{
        "kernel_id": "VARCHAR", "formatted_kernel_name": "VARCHAR", "demangled_kernel_name": "VARCHAR",
        "kernel_name": "VARCHAR", "arch_vgpr_count": "VARCHAR", "accum_vgpr_count": "VARCHAR", "sgpr_count": "VARCHAR"
    }'))
    FROM json_record WHERE list = 'kernel_symbols'
),

counter AS (
    SELECT process, record ->> '$.id.handle' AS id, record ->> '$.name' AS name FROM json_record WHERE list = 'counters'
)

SELECT
    cell.process, place, cell.row, list AS origin, list AS what,
    COALESCE(names[COALESCE(whole(fields.operation), 0) + 1], 'operation ' || COALESCE(fields.operation, '0')) AS function,
    IF(list = 'marker_api' AND function = 'roctxMarkA', 'mark', shape) AS shape,
    COALESCE(cat, 'kind ' || fields.kind) AS cat,
    IF(
        shape IN ('kernel', 'counter'),
        COALESCE(
            NULLIF(formatted_kernel_name, ''), NULLIF(demangled_kernel_name, ''), NULLIF(kernel_name, ''),
            'kernel ' || info.kernel_id
        ),
        COALESCE(message.text, function)
    ) AS name,
    fields.start_timestamp, fields.end_timestamp, fields.thread_id, fields.correlation_id.internal AS correlation_id,
    COALESCE(info.agent_id.handle, fields.dst_agent_id.handle, fields.agent_id.handle) AS agent_id,
    fields.src_agent_id.handle AS source_agent_id, NULL AS direction,
    object(
        concat_ws(',', member('dst_agent_id', fields.dst_agent_id.handle), member('src_agent_id', fields.src_agent_id.handle))
    ) AS copy_args,
    fields.stream_id.handle AS stream_id, info.queue_id.handle AS queue_id, info.dispatch_id, info.kernel_id,
    info.private_segment_size, info.group_segment_size, arch_vgpr_count, accum_vgpr_count, sgpr_count,
    info.grid_size.x AS grid_size_x, info.grid_size.y AS grid_size_y, info.grid_size.z AS grid_size_z,
    info.workgroup_size.x AS workgroup_size_x, info.workgroup_size.y AS workgroup_size_y, info.workgroup_size.z AS workgroup_size_z,
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
FROM cell LEFT JOIN operation ON cell.process = operation.process AND whole(fields.kind) = operation.kind
LEFT JOIN message ON list = 'marker_api' AND cell.process = message.process AND fields.correlation_id.internal = message.key
LEFT JOIN symbol ON cell.process = symbol.process AND info.kernel_id = symbol.kernel_id
LEFT JOIN counter ON cell.process = counter.process AND unit.counter_id.handle = counter.id;

INSERT INTO not_loaded
SELECT process, 'of counters without times', COUNT(DISTINCT row) FROM text_record
WHERE shape = 'counter' AND NOT has_time(whole(start_timestamp)) GROUP BY process
UNION ALL
SELECT process, list, COUNT(*) FROM json_record ANTI JOIN json_list USING (list)
WHERE list NOT IN ('agents', 'kernel_symbols', 'counters', 'kinds', 'messages') GROUP BY process, list;

DELETE FROM text_record WHERE shape = 'counter' AND NOT has_time(whole(start_timestamp));
