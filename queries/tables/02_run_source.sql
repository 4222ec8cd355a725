-- What a run directory holds beside traces, as it was recorded.

CREATE TABLE IF NOT EXISTS run_file (
    path VARCHAR,
    document JSON,
    metrics JSON
);
COMMENT ON TABLE run_file IS 'One row per run directory that was loaded.';
COMMENT ON COLUMN run_file.path IS 'Absolute path of the folder when it was loaded.';
COMMENT ON COLUMN run_file.document IS 'run.json, whole.';
COMMENT ON COLUMN run_file.metrics IS 'metrics.json, whole; NULL where the folder has none.';

CREATE TABLE IF NOT EXISTS run_iteration (
    run VARCHAR,
    rank BIGINT,
    number BIGINT,
    begin_unix_ns BIGINT,
    requests MAP(VARCHAR, BIGINT)
);
COMMENT ON TABLE run_iteration IS 'One row per recorded engine iteration of a rank, as the engine scheduled it.';
COMMENT ON COLUMN run_iteration.run IS 'Path of the run directory.';
COMMENT ON COLUMN run_iteration.rank IS 'Rank that ran it.';
COMMENT ON COLUMN run_iteration.number IS 'Position among the recorded iterations of its rank, from 0.';
COMMENT ON COLUMN run_iteration.begin_unix_ns IS 'When the worker was called, Unix time, ns.';
COMMENT ON COLUMN run_iteration.requests IS 'Tokens that were processed for each request.';

CREATE TABLE IF NOT EXISTS telemetry_sample (
    run VARCHAR,
    unix_ns BIGINT,
    gpu BIGINT,
    uuid VARCHAR,
    utilization_pct BIGINT,
    memory_used_bytes BIGINT,
    temperature_c BIGINT,
    power_mw BIGINT,
    sm_clock_mhz BIGINT,
    throttle_reasons BIGINT
);
COMMENT ON TABLE telemetry_sample IS 'One row per GPU and sample, as recorded.';
COMMENT ON COLUMN telemetry_sample.run IS 'Path of the run directory.';
COMMENT ON COLUMN telemetry_sample.unix_ns IS 'When it was read, Unix time, ns.';
COMMENT ON COLUMN telemetry_sample.gpu IS 'Number of the GPU on its host, as NVML counts.';
COMMENT ON COLUMN telemetry_sample.uuid IS 'Identifier of the GPU.';
COMMENT ON COLUMN telemetry_sample.utilization_pct IS 'Share of NVML''s last sampling period in which a kernel ran, percent.';
COMMENT ON COLUMN telemetry_sample.memory_used_bytes IS 'Memory in use, by all programs, bytes.';
COMMENT ON COLUMN telemetry_sample.temperature_c IS 'Temperature of the GPU, degrees Celsius.';
COMMENT ON COLUMN telemetry_sample.power_mw IS 'Power draw, milliwatts.';
COMMENT ON COLUMN telemetry_sample.sm_clock_mhz IS 'Clock of the multiprocessors, MHz.';
COMMENT ON COLUMN telemetry_sample.throttle_reasons IS 'NVML''s bit mask of what holds the clocks down.';
