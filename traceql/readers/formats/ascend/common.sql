-- What the tasks of both forms have in common: their kinds by type and name, the time that they take in all,
-- and the statements about them for the ledger.

-- Types of tasks that compute, with KERNEL_ before some of them in databases.
CREATE MACRO is_compute_task(type) AS regexp_full_match(
    COALESCE(type, ''), '(?i)(KERNEL_\w+|AI_?CORE|AI_VECTOR_CORE|AIV|MIX_AI[CV]|AI_?CPU|DSA(_SQE)?)'
);
-- Types of tasks that do not compute: they copy, wait, record, or serve the profiler and CANN.
CREATE MACRO is_other_task(type) AS regexp_full_match(
    COALESCE(type, ''), '(?i)(Other|STARS_COMMON|FFTS_PLUS|FLIP|NOP|BARRIER|CMO\w*|DATA_DUMP|MAINTENANCE|'
    || '(EVENT|NOTIFY|WRITE|MEM|MEMCPY|CAPTURE|SDMA|PCIE_DMA|PLACE_HOLDER|PROFILING|RDMA|STREAM|'
    || 'MODEL|LABEL|CREATE|ACTIVE|COND|VALUE)([ _].*)?)'
);
-- Names of kernels that carry out an operation of communication; its own row has the time.
CREATE MACRO is_part_kernel(name) AS regexp_matches(COALESCE(name, ''), 'AicpuKernel$|AivKernel$|^aiv_|^hccl_aiv');
-- Names of kernels that the profiler does not count as computing.
CREATE MACRO is_communication_kernel(name) AS regexp_matches(COALESCE(name, ''), '(Aicpu|Aiv)Kernel$');
-- Names of PyTorch events that are ranges of the program, not operators.
CREATE MACRO is_annotation(name) AS regexp_matches(COALESCE(name, ''), '^ProfilerStep#\d+$|^execute_|(^|\.)layers\.\d+(\.|$)');
-- Tasks of a captured graph have the number of its model; all others have the largest of 32 bits.
CREATE MACRO is_captured(model) AS COALESCE(model <> 4294967295, FALSE);
-- Ranks, or numbers of ranks: -1 and the largest of 32 bits mean none.
CREATE MACRO rank_number(value) AS CASE WHEN value BETWEEN 0 AND 2147483647 THEN value END;

-- What counts as busy: compute tasks, and whole operations of communication.
CREATE TABLE busy (scope BIGINT, is_compute BOOLEAN, ts BIGINT, dur BIGINT);

-- The sums of the profiler, recomputed: copies and waits for events count as free.
CREATE VIEW own_sum AS
WITH interval AS (
    SELECT scope, ts, ts + GREATEST(dur, 0) AS end_ts, UNNEST(['any', IF(is_compute, 'compute', 'communication')]) AS class
    FROM busy
),
uncovered AS (
    SELECT
        scope, class,
        end_ts - GREATEST(ts, COALESCE(MAX(end_ts) OVER (
            PARTITION BY scope, class ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), ts)) AS ns
    FROM interval
),
covered AS (
    SELECT
        scope, COALESCE(SUM(GREATEST(ns, 0)) FILTER (class = 'any'), 0) AS any_ns,
        COALESCE(SUM(GREATEST(ns, 0)) FILTER (class = 'compute'), 0) AS compute_ns,
        COALESCE(SUM(GREATEST(ns, 0)) FILTER (class = 'communication'), 0) AS communication_ns
    FROM uncovered GROUP BY scope
),
span AS (SELECT scope, MAX(ts + dur) - MIN(ts) AS span_ns FROM busy GROUP BY scope)

SELECT
    scope, UNNEST(['Computing', 'Communication', 'Communication(Not Overlapped)', 'Free']) AS name,
    CAST(UNNEST([compute_ns, communication_ns, any_ns - compute_ns, span_ns - any_ns]) AS BIGINT) AS ns
FROM covered INNER JOIN span USING (scope);

-- Statements for the ledger. statements.csv has the note of each check of a form, in which `extra` takes the place of {}.
CREATE TABLE statement (check_name VARCHAR, value BIGINT, total BIGINT, ok BOOLEAN, extra VARCHAR);
CREATE TABLE note AS FROM read_csv(getvariable('notes'), all_varchar := TRUE) WHERE COALESCE(form, '') IN ('', getvariable('form'));
CREATE VIEW load_check AS
SELECT 0 AS rank, check_name, value, total, ok, replace(note, '{}', COALESCE(extra, '')) AS note
FROM statement INNER JOIN note ON check_name LIKE pattern
QUALIFY row_number() OVER (PARTITION BY statement.rowid ORDER BY length(pattern) DESC) = 1;

-- What is known of tasks, and the statements that both forms make of it. Waits are those of the profiler; owned parts of communication
-- belong to an operation. Types are those of tasks that last and are not described.
CREATE TABLE task_total (
    tasks BIGINT, counted BIGINT, copies BIGINT, odd_sizes BIGINT, waits BIGINT, captured BIGINT, kernels BIGINT, calls BIGINT,
    parts BIGINT, owned BIGINT
);
CREATE TABLE task_type (type VARCHAR, tasks BIGINT);
CREATE MACRO task_statements() AS TABLE
SELECT 'tasks of the device', counted, tasks, NULL, NULL FROM task_total
UNION ALL
SELECT 'sizes of copies', odd_sizes, copies, FALSE, NULL FROM task_total WHERE odd_sizes > 0
UNION ALL
SELECT 'waits of the profiler', waits, tasks, NULL, NULL FROM task_total WHERE waits > 0
UNION ALL
SELECT 'tasks of captured graphs', captured, counted, NULL, NULL FROM task_total WHERE captured > 0
UNION ALL
SELECT 'calls of CANN', 0, 0, NULL, NULL FROM task_total WHERE kernels > 0 AND calls = 0
UNION ALL
SELECT
    'parts of communication', owned, parts, owned = parts, 'tasks on planes that belong to an operation; all tasks on planes'
FROM task_total WHERE parts > 0
UNION ALL
SELECT
    'tasks of unknown type', CAST(SUM(tasks) AS BIGINT), (SELECT tasks FROM task_total), FALSE,
    string_agg('''' || COALESCE(NULLIF(type, ''), 'none') || ''' ' || format('{:,}', tasks), ', ' ORDER BY type)
FROM task_type WHERE NOT is_compute_task(type) AND NOT is_other_task(type) HAVING COUNT(*) > 0;
