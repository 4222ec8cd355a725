-- How many kernels each launch of a HIP graph has, and which launches lost some.
--
-- Some versions of ROCm lose a part of the kernels of HIP graphs while they record: of the launches of
-- one graph, some have fewer kernels than others. A launch that lost kernels looks faster than it was.
-- Reads `launch` (rank, correlation, graph) and `activity` (rank, correlation).
CREATE MACRO graph_advice(lost) AS IF(
    lost > 0,
    '. Unless they were filtered out: ROCm 7.2 loses kernels of graphs while it records (ROCm/rocm-systems, pull request '
    || '4361); record with another version, or without graphs (vLLM: --enforce-eager)',
    ''
);

CREATE VIEW graph_remark AS
WITH launched AS (
    SELECT rank, graph, COALESCE(activities, 0) AS activities, MAX(activities) OVER (PARTITION BY rank, graph) AS most FROM launch
    LEFT JOIN (SELECT rank, correlation, COUNT(*) AS activities FROM activity WHERE correlation <> 0 GROUP BY ALL)
    USING (rank, correlation)
),

graph_sum AS (
    SELECT
        rank, SUM(activities) AS activities, COUNT(*) AS launches, COUNT(graph) AS known, COUNT(*) FILTER (activities = 0) AS empty,
        COUNT(*) FILTER (graph IS NOT NULL AND activities BETWEEN 1 AND most - 1) AS lost,
        format('{:,} to {:,}', MIN(activities), MAX(activities)) AS each
    FROM launched GROUP BY rank
)

SELECT rank, unnest([
    statement('activities of graph launches', activities, launches, NULL,
        'kernels and copies that launches of HIP graphs made; launches. A launch has ' || each),
    statement('graph launches without kernels', empty, launches, empty = 0,
        'launches of HIP graphs of which no kernel is in the file, or none with the launch''s correlation; all launches'
        || graph_advice(empty)),
    statement('graph launches that lost kernels', lost, IF(known > 0, known, launches), IF(known > 0, lost = 0, NULL),
        IF(
            known > 0,
            'launches with fewer kernels than another launch of the same HIP graph, or of another that took its address; launches of known graphs' || graph_advice(lost),
            'unknown, because the file does not say which graph a call launches; record with rocprofv3 --hip-trace --output-format rocpd or json')
    )
], recursive := TRUE)
FROM graph_sum;
