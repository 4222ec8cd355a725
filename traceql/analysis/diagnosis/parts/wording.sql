-- One row: what the devices of the run and graphs on them are called, and how its profilers record launch calls.
-- @kind   scratch
-- @scope  run
-- @needs  launch, text_for_dialect, trace
-- @column graphs        VARCHAR  CUDA graphs, HIP graphs or ACL graphs; graphs if there are several kinds.
-- @column device        VARCHAR  GPU or NPU; device if there are several kinds.
-- @column calls_advice  VARCHAR  How to record launch calls.
WITH dialect_term AS (
    SELECT
        CASE
            WHEN
                dialect = 'rocprof'
                OR starts_with(device_name, 'AMD')
                OR rank IN (SELECT DISTINCT rank FROM launch WHERE starts_with(name, 'hip'))
                THEN 'HIP graphs'
            ELSE text_for_dialect(dialect, 'CUDA graphs')
        END AS graphs,
        text_for_dialect(dialect, 'GPU') AS device,
        CASE dialect
            WHEN 'ascend' THEN 'Record at level 1, which has launch calls.'
            WHEN 'rocprof' THEN 'Record launch calls too (--hip-trace).'
            WHEN 'nsys' THEN 'Record launch calls too (-t cuda).'
            ELSE 'Record launch calls (CPU activities) too.'
        END AS calls_advice
    FROM trace
    WHERE rank IS NOT NULL
)
SELECT
    CASE WHEN COUNT(DISTINCT graphs) > 1 THEN 'graphs' ELSE ANY_VALUE(graphs) END AS graphs,
    CASE WHEN COUNT(DISTINCT device) > 1 THEN 'device' ELSE COALESCE(ANY_VALUE(device), 'GPU') END AS device,
    CASE WHEN COUNT(DISTINCT calls_advice) > 1 THEN 'Record launch calls too.' ELSE ANY_VALUE(calls_advice) END
        AS calls_advice
FROM dialect_term
