-- One row per profiled point and phase: which share of the GPUs' arithmetic and of their memory bandwidth the model uses.
--
-- Use it to see from which batch on the GPUs are well used. MFU is that of PaLM: useful FLOPs / (time x peak
-- of the data sheet); HFU counts those of padding, too; MBU is that of Databricks: bytes of parameters and
-- KV cache / (time x peak of the memory). With a peaks.json in the folder of results
-- (traceql experiment peaks), the same shares of the measured peaks are there besides. Times are those
-- under the profiler, waiting and idle time included, so that steps that wait for the host look worse
-- than they are; see the query profiles.
--
-- It needs the model's configuration: the run.json of a profiled repeat has it if the machine that recorded
-- had the model's config.json. Steps without tokens (phase idle, in pipelines) have no model to run.
-- @param  phase             VARCHAR = NULL  prefill, decode, mixed, idle or all (all steps as one); prefill, decode and mixed where NULL.
-- @column point             VARCHAR  Point.
-- @column engine            VARCHAR  Engine of the point.
-- @column in_flight         BIGINT   Requests in flight: batch or concurrency; NULL if only a rate limits them.
-- @column request_rate      DOUBLE   Arriving requests per second; NULL if they do not wait to arrive.
-- @column prompt_tokens     BIGINT   Tokens of each prompt.
-- @column output_tokens     BIGINT   Tokens that each request generates.
-- @column phase             VARCHAR  Phase of the steps, or all.
-- @column mfu_pct           DOUBLE   Model FLOPs utilization, percent of the peak of the data sheet; NULL if FLOPs or peak are unknown.
-- @column hfu_pct           DOUBLE   The same with the FLOPs of padding, percent.
-- @column mbu_pct           DOUBLE   Model bandwidth utilization, percent of the peak of the data sheet; NULL if bytes or peak are unknown.
-- @column measured_mfu_pct  DOUBLE   Model FLOPs utilization, percent of the measured peak; NULL if it was not measured.
-- @column measured_mbu_pct  DOUBLE   Model bandwidth utilization, percent of the measured peak; NULL if it was not measured.
-- @column utilization_pct   DOUBLE   The greater of MFU and MBU: how near the steps are to the limit that binds them, percent; NULL if one is unknown or a lower bound (missing).
-- @column step_ns           DOUBLE   Mean time of a step on one rank, the idle time before it included, ns.
-- @column steps             BIGINT   Recorded steps, counted on each rank.
-- @column missing           VARCHAR  What is unknown, and for which parts of the model: these are not counted, so that percentages are lower bounds, or NULL if nothing is left. NULL if all is known.
-- @column panel             VARCHAR  Panel of the chart: engine, phase and output tokens.
-- @key    point phase mfu_pct mbu_pct missing measured_mfu_pct measured_mbu_pct hfu_pct step_ns
-- @empty  no profiled point has steps on a GPU; run the plan with record.profile: true, and see the query profiles
-- @chart  curve x=prompt_tokens y=utilization_pct color=in_flight,request_rate panel=panel
-- @title  How near steps are to the peak that limits them: the greater of MFU and MBU
SELECT
    point_label.title AS point,
    point.engine, point.in_flight, point.request_rate, point.prompt_tokens, point.output_tokens,
    profile_mfu.phase, profile_mfu.mfu_pct, profile_mfu.hfu_pct, profile_mfu.mbu_pct,
    profile_mfu.measured_mfu_pct, profile_mfu.measured_mbu_pct,
    CASE
        WHEN profile_mfu.mfu_pct IS NOT NULL AND profile_mfu.mbu_pct IS NOT NULL AND profile_mfu.missing IS NULL
            THEN GREATEST(profile_mfu.mfu_pct, profile_mfu.mbu_pct)
    END AS utilization_pct,
    profile_mfu.step_ns, profile_mfu.steps, profile_mfu.missing,
    format(
        '{}{}, {} steps, {:,} output tokens',
        point_label.own,
        point.engine,
        profile_mfu.phase,
        point.output_tokens
    ) AS panel
FROM profile_mfu
INNER JOIN point USING (point_id)
INNER JOIN point_label USING (point_id)
WHERE COALESCE(profile_mfu.phase = $phase::VARCHAR, profile_mfu.phase NOT IN ('idle', 'all'))
ORDER BY
    profile_mfu.phase,
    point.engine,
    point.prompt_tokens,
    point.in_flight,
    profile_mfu.point_id
