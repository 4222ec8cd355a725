-- What the outputs of rocprofv3 are read into. Times are ns since the machine was started.
--
-- The profiler writes zeros where it has no times.
CREATE MACRO has_time(begin) AS COALESCE(begin, 0) <> 0;
CREATE MACRO is_backward(begin, finish) AS COALESCE(begin BETWEEN 1 AND 4611686018427387904 AND finish < begin, FALSE);
CREATE MACRO is_loaded(begin, finish) AS has_time(begin) AND NOT is_backward(begin, finish);
CREATE MACRO time_problem(begin, finish) AS CASE
    WHEN finish IS NULL THEN 'its end is missing'
    WHEN begin < 0 THEN format('an event begins at {:,} ns, below zero', begin)
    WHEN begin > 4611686018427387904 THEN format('an event begins at {:,} ns, beyond 2^62', begin)
END;
-- Keys are in the order of processes, of their tables or files, and of the rows in these.
CREATE MACRO row_key(process, place, number) AS (process * 64 + place) * 1099511627776 + number;
-- Who did something: a GPU, or else a thread. Structs are equal if their fields are, even if these are NULL.
CREATE MACRO owner_of(process_number, on_gpu, number) AS {'process': process_number, 'on_gpu': on_gpu, 'number': number};
-- Only the program of a command: its arguments may hold secrets.
CREATE MACRO program(command) AS regexp_extract(trim(regexp_extract(command, '\S+'), '"''[],'), '([^/]*)/*$', 1);
-- Texts as numbers; NULL for any other text.
CREATE MACRO whole(text) AS IF(regexp_full_match(text, '\s*-?[0-9]+\s*'), TRY_CAST(text AS BIGINT), NULL);
CREATE MACRO hexadecimal(text) AS TRY_CAST('0x' || regexp_extract(text, '^\s*(?:0[xX])?([0-9a-fA-F]+)\s*$', 1) AS UBIGINT);

CREATE TABLE process (process BIGINT, pid BIGINT, name VARCHAR);
-- `called` is what records name a processor, `place` its number in the list, and `device` the number of
-- a GPU among those of its machine. Processors that are not listed are known by their records alone.
CREATE TABLE agent (
    process BIGINT, called VARCHAR, place BIGINT, device BIGINT, name VARCHAR, architecture VARCHAR, is_listed BOOLEAN DEFAULT TRUE
);
CREATE TABLE sample (process BIGINT, key BIGINT, name VARCHAR, ts BIGINT, value DOUBLE, device BIGINT);
-- Records that cannot be read, and records that no table holds, by what they are.
CREATE TABLE unread (process BIGINT, what VARCHAR, records BIGINT);
CREATE TABLE not_loaded (process BIGINT, what VARCHAR, records BIGINT);

-- The tables of a database, of each set of them (`part`). Environments of processes are not read.
CREATE TABLE rocpd_metadata (part BIGINT, tag VARCHAR, value VARCHAR);
CREATE TABLE rocpd_info_process (part BIGINT, id BIGINT DEFAULT NULL, pid BIGINT, command VARCHAR);
CREATE TABLE rocpd_info_agent (part BIGINT, id BIGINT, type VARCHAR, type_index BIGINT, product_name VARCHAR, name VARCHAR);
CREATE TABLE rocpd_info_thread (part BIGINT, id BIGINT, tid BIGINT);
CREATE TABLE rocpd_info_kernel_symbol (
    part BIGINT, id BIGINT, display_name VARCHAR, kernel_name VARCHAR, arch_vgpr_count BIGINT, accum_vgpr_count BIGINT, sgpr_count BIGINT
);
CREATE TABLE rocpd_info_pmc (part BIGINT, id BIGINT, pid BIGINT, agent_id BIGINT, name VARCHAR);
CREATE TABLE rocpd_string (part BIGINT, id BIGINT, string VARCHAR);
CREATE TABLE rocpd_track (part BIGINT, id BIGINT, pid BIGINT, tid BIGINT, name_id BIGINT);
CREATE TABLE rocpd_event (part BIGINT, id BIGINT, category_id BIGINT, stack_id BIGINT);
-- Texts of markers (of rocpd_event), and graphs that calls launch (of rocpd_arg).
CREATE TABLE message (part BIGINT, id BIGINT, extdata VARCHAR);
CREATE TABLE graph (part BIGINT, event_id BIGINT, name VARCHAR, value VARCHAR);
CREATE TABLE rocpd_sample (part BIGINT, track_id BIGINT, timestamp BIGINT, event_id BIGINT);
CREATE TABLE rocpd_pmc_event (part BIGINT, event_id BIGINT, pmc_id BIGINT, value DOUBLE);
CREATE TABLE rocpd_kernel_dispatch (
    part BIGINT, pid BIGINT, tid BIGINT, start BIGINT DEFAULT NULL, "end" BIGINT DEFAULT NULL, agent_id BIGINT DEFAULT NULL,
    kernel_id BIGINT DEFAULT NULL, event_id BIGINT, dispatch_id BIGINT, queue_id BIGINT, stream_id BIGINT, private_segment_size BIGINT,
    group_segment_size BIGINT, grid_size_x BIGINT, grid_size_y BIGINT, grid_size_z BIGINT, workgroup_size_x BIGINT, workgroup_size_y BIGINT,
    workgroup_size_z BIGINT
);
CREATE TABLE rocpd_memory_copy (
    part BIGINT, pid BIGINT, tid BIGINT, start BIGINT DEFAULT NULL, "end" BIGINT DEFAULT NULL, event_id BIGINT, name_id BIGINT,
    dst_agent_id BIGINT, src_agent_id BIGINT, size BIGINT, queue_id BIGINT, stream_id BIGINT
);
CREATE TABLE rocpd_region (
    part BIGINT, pid BIGINT, tid BIGINT, start BIGINT DEFAULT NULL, "end" BIGINT DEFAULT NULL, event_id BIGINT, name_id BIGINT DEFAULT NULL
);
CREATE TABLE rocpd_memory_allocate (
    part BIGINT, pid BIGINT, tid BIGINT, start BIGINT DEFAULT NULL, "end" BIGINT DEFAULT NULL, event_id BIGINT, agent_id BIGINT,
    type VARCHAR DEFAULT NULL, level VARCHAR DEFAULT NULL, address BIGINT, size BIGINT
);

-- The lists of JSON, and the rows of CSV files, as text.
CREATE TABLE json_record (process BIGINT, list VARCHAR, row BIGINT, record VARCHAR);
CREATE TABLE csv_file (file BIGINT, kind VARCHAR, name VARCHAR, pid BIGINT, unread BIGINT);
CREATE TABLE csv_row (
    file BIGINT, row BIGINT, guid VARCHAR, process_id VARCHAR, node_id VARCHAR, logical_node_id VARCHAR, agent_type VARCHAR,
    name VARCHAR, product_name VARCHAR, kind VARCHAR, domain VARCHAR, function VARCHAR, operation VARCHAR, direction VARCHAR,
    kernel_name VARCHAR, start_timestamp VARCHAR, end_timestamp VARCHAR, correlation_id VARCHAR, thread_id VARCHAR, agent_id VARCHAR,
    source_agent_id VARCHAR, destination_agent_id VARCHAR, stream_id VARCHAR, queue_id VARCHAR, dispatch_id VARCHAR,
    kernel_id VARCHAR, private_segment_size VARCHAR, scratch_size VARCHAR, group_segment_size VARCHAR, lds_block_size VARCHAR,
    vgpr_count VARCHAR, accum_vgpr_count VARCHAR, sgpr_count VARCHAR, grid_size_x VARCHAR, grid_size_y VARCHAR, grid_size_z VARCHAR,
    workgroup_size_x VARCHAR, workgroup_size_y VARCHAR, workgroup_size_z VARCHAR, copy_bytes VARCHAR, allocation_size VARCHAR,
    address VARCHAR, counter_name VARCHAR, counter_value VARCHAR
);
