-- One row per launch that Nsight Compute profiled: what it moved and computed.
--
-- What was not measured is NULL, never 0. Instruction counters do not see the tensor cores: without a
-- metric of theirs, the FLOPs of a launch are unknown.
-- @scope  run
-- @needs  kernel_metric, profiled_launch
-- @empty_unless profiled_launch
-- @column launch        BIGINT   Launch (profiled_launch.id).
-- @column dur           DOUBLE   Duration under Nsight Compute, ns: alone on the GPU, mostly with fixed clocks and empty caches. It is not that of a trace.
-- @column dram_bytes    DOUBLE   Bytes read from and written to the memory; from the details page, throughput x duration. NULL if unknown.
-- @column bytes_step    DOUBLE   Place value of the last digit of dram_bytes, bytes: 10,000,000 where 0.05 Gbyte are printed; NULL if unknown.
-- @column read_bytes    DOUBLE   Bytes read from the memory; NULL if unknown.
-- @column l2_bytes      DOUBLE   Bytes requested of the L2 cache; NULL if unknown.
-- @column vector_flops  DOUBLE   FLOPs outside the tensor cores, of the types whose instructions were counted; NULL if none were.
-- @column tensor_flops  DOUBLE   FLOPs of the tensor cores; NULL without a metric of them, or if those at hand count 0 although the cores were busy.
-- @column flops         DOUBLE   All FLOPs that are known of it; NULL if those of the tensor cores are not, or if they are 0 and the others are not known.
-- @column dtype         VARCHAR  Type of the numbers on the tensor cores (peak.dtype); NULL without any, or of several types.
-- @column sm_hz         DOUBLE   Clock of the multiprocessors under Nsight Compute, 1/s; NULL if unknown.
WITH
-- A quantity is the sum of the metrics of a way, each times its factor. Of the ways whose metrics were all
-- measured, the lowest counts. A label of the details page counts only in its section.
quantity_metric (quantity, way, metric, section, unit, factor) AS (
    VALUES
    ('dur', 1, 'gpu__time_duration.sum', NULL, 'ns', 1),
    ('dur', 2, 'Duration', 'GPU Speed Of Light Throughput', 'ns', 1),
    ('read_bytes', 1, 'dram__bytes_read.sum', NULL, 'byte', 1),
    ('read_bytes', 2, 'dram__bytes_op_read.sum', NULL, 'byte', 1),
    ('dram_bytes', 1, 'dram__bytes_read.sum', NULL, 'byte', 1),
    ('dram_bytes', 1, 'dram__bytes_write.sum', NULL, 'byte', 1),
    ('dram_bytes', 2, 'dram__bytes_op_read.sum', NULL, 'byte', 1),
    ('dram_bytes', 2, 'dram__bytes_op_write.sum', NULL, 'byte', 1),
    ('dram_bytes', 3, 'dram__bytes.sum', NULL, 'byte', 1),
    ('dram_bytes_per_s', 1, 'dram__bytes.sum.per_second', NULL, 'byte/s', 1),
    ('dram_bytes_per_s', 2, 'Memory Throughput', 'Memory Workload Analysis', 'byte/s', 1),
    ('l2_bytes', 1, 'lts__t_bytes.sum', NULL, 'byte', 1),
    ('fp32_flops', 1, 'smsp__sass_thread_inst_executed_op_fadd_pred_on.sum', NULL, NULL, 1),
    ('fp32_flops', 1, 'smsp__sass_thread_inst_executed_op_fmul_pred_on.sum', NULL, NULL, 1),
    ('fp32_flops', 1, 'smsp__sass_thread_inst_executed_op_ffma_pred_on.sum', NULL, NULL, 2),
    ('fp16_flops', 1, 'smsp__sass_thread_inst_executed_op_hadd_pred_on.sum', NULL, NULL, 1),
    ('fp16_flops', 1, 'smsp__sass_thread_inst_executed_op_hmul_pred_on.sum', NULL, NULL, 1),
    ('fp16_flops', 1, 'smsp__sass_thread_inst_executed_op_hfma_pred_on.sum', NULL, NULL, 2),
    ('fp64_flops', 1, 'smsp__sass_thread_inst_executed_op_dadd_pred_on.sum', NULL, NULL, 1),
    ('fp64_flops', 1, 'smsp__sass_thread_inst_executed_op_dmul_pred_on.sum', NULL, NULL, 1),
    ('fp64_flops', 1, 'smsp__sass_thread_inst_executed_op_dfma_pred_on.sum', NULL, NULL, 2),
    ('tensor_use_pct', 1, 'sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed', NULL, '%', 1),
    ('tensor_use_pct', 2, 'sm__pipe_tensor_cycles_active.sum.pct_of_peak_sustained_elapsed', NULL, '%', 1),
    ('sm_hz', 1, 'sm__cycles_elapsed.avg.per_second', NULL, 'hz', 1),
    ('sm_hz', 2, 'SM Frequency', 'GPU Speed Of Light Throughput', 'hz', 1)
),
part AS (
    SELECT
        kernel_metric.launch, quantity.quantity, quantity.way, quantity.metric,
        AVG(kernel_metric.value) * ANY_VALUE(quantity.factor) AS value,
        MAX(kernel_metric.step) AS step
    FROM kernel_metric
    INNER JOIN quantity_metric AS quantity
        ON kernel_metric.metric = quantity.metric
        AND (quantity.section IS NULL OR kernel_metric.section = quantity.section)
        AND (quantity.unit IS NULL OR kernel_metric.unit = quantity.unit)
    WHERE kernel_metric.value IS NOT NULL
    GROUP BY kernel_metric.launch, quantity.quantity, quantity.way, quantity.metric
),
way AS (SELECT quantity, way, COUNT(*) AS metrics FROM quantity_metric GROUP BY quantity, way),
measured AS (
    SELECT part.launch, part.quantity, part.way, SUM(part.value ORDER BY part.metric) AS value, MAX(part.step) AS step
    FROM part
    INNER JOIN way USING (quantity, way)
    GROUP BY part.launch, part.quantity, part.way, way.metrics
    HAVING COUNT(*) = way.metrics
),
chosen AS (
    SELECT launch, quantity, arg_min(value, way) AS value, arg_min(step, way) AS step
    FROM measured
    GROUP BY launch, quantity
),
counted AS (
    SELECT
        launch,
        ANY_VALUE(value) FILTER (quantity = 'dur') AS dur,
        ANY_VALUE(value) FILTER (quantity = 'dram_bytes') AS dram_bytes,
        ANY_VALUE(step) FILTER (quantity = 'dram_bytes') AS bytes_step,
        ANY_VALUE(value) FILTER (quantity = 'dram_bytes_per_s') AS dram_bytes_per_s,
        ANY_VALUE(step) FILTER (quantity = 'dram_bytes_per_s') AS step_per_s,
        ANY_VALUE(value) FILTER (quantity = 'read_bytes') AS read_bytes,
        ANY_VALUE(value) FILTER (quantity = 'l2_bytes') AS l2_bytes,
        SUM(value ORDER BY quantity) FILTER (quantity IN ('fp16_flops', 'fp32_flops', 'fp64_flops')) AS vector_flops,
        ANY_VALUE(value) FILTER (quantity = 'tensor_use_pct') AS tensor_use_pct,
        ANY_VALUE(value) FILTER (quantity = 'sm_hz') AS sm_hz
    FROM chosen
    GROUP BY launch
),
-- A metric counts operations with and without sparsity, or there is one for each.
tensor_path AS (
    SELECT
        launch,
        regexp_replace(metric, '_sparsity_(on|off)', '') AS path,
        COALESCE(
            AVG(value) FILTER (NOT contains(metric, '_sparsity_')),
            SUM(value ORDER BY metric) FILTER (contains(metric, '_sparsity_'))
        ) AS operations
    FROM kernel_metric
    WHERE starts_with(metric, 'sm__ops_path_tensor_') AND ends_with(metric, '.sum') AND value IS NOT NULL
    GROUP BY launch, path
),
-- That of a type contains those of its types of results, and these contain those of its instructions.
tensor_level AS (
    SELECT
        launch,
        regexp_extract(path, '_src_([a-z0-9]+)', 1) AS number_type,
        CASE
            WHEN contains(path, '_tensor_op_') THEN 3
            WHEN contains(path, '_dst_') THEN 2
            ELSE 1
        END AS level,
        SUM(operations ORDER BY path) AS operations
    FROM tensor_path
    GROUP BY launch, number_type, level
),
tensor_type AS (
    SELECT launch, number_type, arg_min(operations, level) AS operations
    FROM tensor_level
    GROUP BY launch, number_type
),
tensor AS (
    SELECT
        launch,
        SUM(operations ORDER BY number_type) AS operations,
        list(DISTINCT CASE
            WHEN number_type IN ('bf16', 'fp16') THEN 'bf16'
            WHEN number_type IN ('fp8', 'e4m3', 'e5m2') THEN 'fp8'
            ELSE number_type
        END) FILTER (operations > 0) AS number_types
    FROM tensor_type
    GROUP BY launch
),
known AS (
    SELECT
        profiled_launch.id AS launch,
        counted.* EXCLUDE (launch),
        -- Other types than those measured: more than 5% of the time is no rounding.
        CASE WHEN NOT (tensor.operations = 0 AND COALESCE(counted.tensor_use_pct, 0) > 5) THEN tensor.operations END AS tensor_flops,
        tensor.number_types
    FROM profiled_launch
    LEFT JOIN counted ON profiled_launch.id = counted.launch
    LEFT JOIN tensor ON profiled_launch.id = tensor.launch
)
SELECT
    launch, dur,
    COALESCE(dram_bytes, dram_bytes_per_s * dur / 1e9) AS dram_bytes,
    CASE WHEN dram_bytes IS NULL THEN step_per_s * dur / 1e9 ELSE bytes_step END AS bytes_step,
    read_bytes, l2_bytes, vector_flops, tensor_flops,
    CASE
        WHEN tensor_flops > 0 THEN tensor_flops + COALESCE(vector_flops, 0)
        WHEN tensor_flops = 0 THEN vector_flops
    END AS flops,
    CASE WHEN len(number_types) = 1 THEN number_types[1] END AS dtype,
    sm_hz
FROM known
ORDER BY launch
