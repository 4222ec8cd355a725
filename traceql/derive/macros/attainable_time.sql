-- The floor of each role in each case and class, and the time that is attainable: at the best shares of the peaks that the recording reaches; for query whatif.
--
-- Parts are those of sized_part; roofs have the peaks.
-- @kind   table macro
-- @scope  run
-- @needs  class_time, role_work
CREATE OR REPLACE MACRO attainable_time(parts, roofs) AS TABLE
WITH work AS MATERIALIZED (
    FROM role_work(parts, roofs)
),
-- The best share of each peak that a product of the recording reaches: what more work would get.
reached AS (
    SELECT
        COALESCE(memory, compute) AS memory,
        COALESCE(compute, memory) AS compute
    FROM (
        SELECT
            LEAST(MAX(work.memory_ns / class_time.ns) FILTER (work.memory_ns >= work.flop_ns), 1) AS memory,
            LEAST(MAX(work.flop_ns / class_time.ns) FILTER (work.memory_ns < work.flop_ns), 1) AS compute
        FROM work
        INNER JOIN class_time
            ON work.id = class_time.class_id AND work.role = class_time.role AND class_time.part = 'computing'
        WHERE NOT work.is_case AND work.formula = 'product' AND class_time.ns > 0
    )
)
SELECT
    work.is_case,
    work.id,
    work.role,
    work.formula,
    work.row_count,
    GREATEST(work.flop_ns, work.memory_ns) AS floor_ns,
    GREATEST(work.flop_ns / reached.compute, work.memory_ns / reached.memory) AS ns,
    work.flop_ns / reached.compute > work.memory_ns / reached.memory AS is_compute
FROM work
CROSS JOIN reached
WHERE work.flop_ns IS NOT NULL AND work.memory_ns IS NOT NULL
