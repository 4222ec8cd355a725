-- What readers write: the files' contents, before anything is derived from them.

CREATE TABLE IF NOT EXISTS traceql_database (
    schema_version BIGINT,
    written_by VARCHAR
);
COMMENT ON TABLE traceql_database IS 'One row: what wrote this database.';
COMMENT ON COLUMN traceql_database.schema_version IS 'Version of tables and columns.';
COMMENT ON COLUMN traceql_database.written_by IS 'Version of traceql.';

CREATE TABLE IF NOT EXISTS trace (
    rank BIGINT PRIMARY KEY,
    world_size BIGINT,
    tp_rank BIGINT,
    pp_rank BIGINT,
    dp_rank BIGINT,
    ep_rank BIGINT,
    device_name VARCHAR,
    base_time_ns BIGINT,
    file_offset_ns BIGINT,
    path VARCHAR,
    sha256 VARCHAR,
    size_bytes BIGINT,
    reader VARCHAR,
    format VARCHAR,
    metadata JSON
);
COMMENT ON TABLE trace IS 'One row per trace file.';
COMMENT ON COLUMN trace.rank IS 'Global rank, unique; the ledger says where it comes from.';
COMMENT ON COLUMN trace.world_size IS 'Ranks of the job, loaded or not.';
COMMENT ON COLUMN trace.tp_rank IS 'Tensor-parallel rank; NULL where the file name has none.';
COMMENT ON COLUMN trace.pp_rank IS 'Pipeline-parallel rank; NULL where the file name has none.';
COMMENT ON COLUMN trace.dp_rank IS 'Data-parallel rank; NULL where the file name has none.';
COMMENT ON COLUMN trace.ep_rank IS 'Expert-parallel rank; NULL where the file name has none.';
COMMENT ON COLUMN trace.device_name IS 'GPU name of the first device that ran a kernel.';
COMMENT ON COLUMN trace.base_time_ns IS
    'The time that ts = 0 stands for, ns: the run''s first event; Unix time where the profiler wrote baseTimeNanoseconds or absolute times.';
COMMENT ON COLUMN trace.file_offset_ns IS
    'What was added to the file''s own times to get ts, ns: ts = file time + file_offset_ns.';
COMMENT ON COLUMN trace.path IS 'Absolute path of the file when it was loaded.';
COMMENT ON COLUMN trace.sha256 IS 'SHA-256 of the file as it is on disk, hexadecimal.';
COMMENT ON COLUMN trace.size_bytes IS 'Size of the file as it is on disk, bytes.';
COMMENT ON COLUMN trace.reader IS 'Reader that read the file: kineto or perfetto.';
COMMENT ON COLUMN trace.format IS 'json (Kineto and other Chrome traces) or perfetto (native).';
COMMENT ON COLUMN trace.metadata IS 'Every top-level key of the file but traceEvents, as JSON.';

CREATE TABLE IF NOT EXISTS slice (
    id BIGINT,
    rank BIGINT,
    cat VARCHAR,
    name VARCHAR,
    ts BIGINT,
    dur BIGINT,
    pid BIGINT,
    tid BIGINT,
    track_id BIGINT,
    parent_id BIGINT,
    depth BIGINT,
    external_id BIGINT,
    correlation BIGINT,
    args JSON USING COMPRESSION zstd
);
COMMENT ON TABLE slice IS 'One row per complete event of any category, as it stands in the file.';
COMMENT ON COLUMN slice.id IS 'Unique over all ranks; kernel.id and launch.id are the same number.';
COMMENT ON COLUMN slice.rank IS 'Rank that recorded the event.';
COMMENT ON COLUMN slice.cat IS 'Category as in the file: kernel, cpu_op, python_function, ...';
COMMENT ON COLUMN slice.name IS 'Name as in the file.';
COMMENT ON COLUMN slice.ts IS 'Start, ns since trace.base_time_ns.';
COMMENT ON COLUMN slice.dur IS 'Duration, ns.';
COMMENT ON COLUMN slice.pid IS 'Process id as in the file; NULL where it is no integer (see track).';
COMMENT ON COLUMN slice.tid IS 'Thread id as in the file; NULL where it is no integer (see track).';
COMMENT ON COLUMN slice.track_id IS 'Row of track: the process and thread.';
COMMENT ON COLUMN slice.parent_id IS 'Row of slice that encloses this one; NULL at the top.';
COMMENT ON COLUMN slice.depth IS 'Enclosing slices.';
COMMENT ON COLUMN slice.external_id IS 'Argument "External id": joins an operator, its launches and kernels.';
COMMENT ON COLUMN slice.correlation IS 'Argument "correlation": joins a launch and what it launched.';
COMMENT ON COLUMN slice.args IS 'Arguments as in the file, JSON.';

CREATE TABLE IF NOT EXISTS activity (
    id BIGINT,
    device BIGINT,
    stream BIGINT,
    bytes BIGINT,
    grid INTEGER [],
    block INTEGER [],
    graph_node_id BIGINT
);
COMMENT ON TABLE activity IS
    'One row per slice of a GPU category: the arguments that say where it ran; kernel has the rest.';
COMMENT ON COLUMN activity.id IS 'Row of slice.';
COMMENT ON COLUMN activity.device IS 'Argument "device".';
COMMENT ON COLUMN activity.stream IS 'Argument "stream".';
COMMENT ON COLUMN activity.bytes IS 'Argument "bytes".';
COMMENT ON COLUMN activity.grid IS 'Argument "grid".';
COMMENT ON COLUMN activity.block IS 'Argument "block".';
COMMENT ON COLUMN activity.graph_node_id IS 'Argument "graph node id"; NULL where the profiler writes none.';

CREATE TABLE IF NOT EXISTS flow (
    rank BIGINT,
    slice_out BIGINT,
    slice_in BIGINT
);
COMMENT ON TABLE flow IS 'One row per arrow of the trace between two slices.';
COMMENT ON COLUMN flow.rank IS 'Rank that recorded it.';
COMMENT ON COLUMN flow.slice_out IS 'Row of slice where it begins.';
COMMENT ON COLUMN flow.slice_in IS 'Row of slice where it ends.';

CREATE TABLE IF NOT EXISTS instant (
    rank BIGINT,
    cat VARCHAR,
    name VARCHAR,
    ts BIGINT,
    pid BIGINT,
    tid BIGINT,
    track_id BIGINT,
    args JSON USING COMPRESSION zstd
);
COMMENT ON TABLE instant IS 'One row per event without a duration.';
COMMENT ON COLUMN instant.rank IS 'Rank that recorded the event.';
COMMENT ON COLUMN instant.cat IS 'Category as in the file.';
COMMENT ON COLUMN instant.name IS 'Name as in the file.';
COMMENT ON COLUMN instant.ts IS 'Time, ns since trace.base_time_ns.';
COMMENT ON COLUMN instant.pid IS 'Process id as in the file; NULL where it is no integer (see track).';
COMMENT ON COLUMN instant.tid IS 'Thread id as in the file; NULL where it is no integer (see track).';
COMMENT ON COLUMN instant.track_id IS 'Row of track: the process and thread.';
COMMENT ON COLUMN instant.args IS 'Arguments as in the file, JSON.';

CREATE TABLE IF NOT EXISTS track (
    id BIGINT,
    rank BIGINT,
    pid VARCHAR,
    tid VARCHAR,
    process_name VARCHAR,
    thread_name VARCHAR,
    process_labels VARCHAR,
    process_sort_index BIGINT,
    thread_sort_index BIGINT
);
COMMENT ON TABLE track IS 'One row per process and thread (or device and stream) of a file.';
COMMENT ON COLUMN track.id IS 'Unique over all ranks.';
COMMENT ON COLUMN track.rank IS 'Rank that recorded it.';
COMMENT ON COLUMN track.pid IS 'Process id as in the file, as text.';
COMMENT ON COLUMN track.tid IS 'Thread id as in the file, as text.';
COMMENT ON COLUMN track.process_name IS 'Name that the file gives the process.';
COMMENT ON COLUMN track.thread_name IS 'Name that the file gives the thread.';
COMMENT ON COLUMN track.process_labels IS 'Labels of the process, such as GPU 0; NULL where it has none.';
COMMENT ON COLUMN track.process_sort_index IS 'Its place among processes in a viewer.';
COMMENT ON COLUMN track.thread_sort_index IS 'Place of the thread in its process.';

CREATE TABLE IF NOT EXISTS file_count (
    rank BIGINT,
    phase VARCHAR,
    cat VARCHAR,
    events BIGINT,
    dur BIGINT
);
COMMENT ON TABLE file_count IS 'One row per kind of event in a file, counted before it was loaded.';
COMMENT ON COLUMN file_count.rank IS 'Rank that recorded the events.';
COMMENT ON COLUMN file_count.phase IS 'slice for complete events, else the phase letter of the trace format.';
COMMENT ON COLUMN file_count.cat IS 'Category of complete events, else empty.';
COMMENT ON COLUMN file_count.events IS 'Events in the file.';
COMMENT ON COLUMN file_count.dur IS 'Their summed duration, ns.';

CREATE TABLE IF NOT EXISTS remark (
    rank BIGINT,
    check_name VARCHAR,
    value BIGINT,
    total BIGINT,
    ok BOOLEAN,
    note VARCHAR
);
COMMENT ON TABLE remark IS 'One row per thing that loading a file has to say; part of the ledger.';
COMMENT ON COLUMN remark.rank IS 'Rank that it is about.';
COMMENT ON COLUMN remark.check_name IS 'What was checked.';
COMMENT ON COLUMN remark.value IS 'What was found.';
COMMENT ON COLUMN remark.total IS 'Out of how much.';
COMMENT ON COLUMN remark.ok IS 'Whether it is as it should be; NULL where there is nothing to prove.';
COMMENT ON COLUMN remark.note IS 'Meaning of the numbers.';

CREATE TABLE IF NOT EXISTS graph_node (
    rank BIGINT,
    graph_node_id BIGINT,
    path VARCHAR
);
COMMENT ON TABLE graph_node IS
    'One row per node of a CUDA graph whose module the capture wrote down (graph_nodes.json).';
COMMENT ON COLUMN graph_node.rank IS 'Rank that captured the graph.';
COMMENT ON COLUMN graph_node.graph_node_id IS 'Argument "graph node id" of its kernels.';
COMMENT ON COLUMN graph_node.path IS 'Module that was captured there, with slashes.';

CREATE TABLE IF NOT EXISTS model_config (
    model_type VARCHAR,
    layers BIGINT,
    hidden_size BIGINT,
    families VARCHAR [],
    path VARCHAR
);
COMMENT ON TABLE model_config IS 'At most one row: the model''s configuration, where it was given.';
COMMENT ON COLUMN model_config.model_type IS 'model_type of config.json.';
COMMENT ON COLUMN model_config.layers IS 'num_hidden_layers of config.json.';
COMMENT ON COLUMN model_config.hidden_size IS 'hidden_size of config.json: elements of one token''s activations.';
COMMENT ON COLUMN model_config.families IS 'Layer grammars for this model_type.';
COMMENT ON COLUMN model_config.path IS 'Where it was read.';

CREATE TABLE IF NOT EXISTS kernel_rule (
    priority BIGINT,
    pattern VARCHAR,
    category VARCHAR,
    example VARCHAR,
    note VARCHAR
);
COMMENT ON TABLE kernel_rule IS 'One row per classification rule that this database was made with.';
COMMENT ON COLUMN kernel_rule.priority IS 'The matching rule with the lowest number wins.';
COMMENT ON COLUMN kernel_rule.pattern IS 'RE2 regular expression, found anywhere in the kernel''s name.';
COMMENT ON COLUMN kernel_rule.category IS 'Category of the kernels that match.';
COMMENT ON COLUMN kernel_rule.example IS 'A kernel name that this rule decides.';
COMMENT ON COLUMN kernel_rule.note IS 'Why.';

CREATE TABLE IF NOT EXISTS kernel_class (
    name VARCHAR,
    category VARCHAR,
    priority BIGINT,
    symbol VARCHAR
);
COMMENT ON TABLE kernel_class IS 'One row per distinct kernel name: the rule that decided it.';
COMMENT ON COLUMN kernel_class.name IS 'Kernel name.';
COMMENT ON COLUMN kernel_class.category IS 'Category; other where no rule matches.';
COMMENT ON COLUMN kernel_class.priority IS 'Row of kernel_rule; NULL where no rule matches.';
COMMENT ON COLUMN kernel_class.symbol IS 'Letter in the layer grammars.';
