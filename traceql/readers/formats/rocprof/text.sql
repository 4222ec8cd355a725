-- noqa: disable=AM04,AM07
-- Columns go through by name.
-- Records of CSV and JSON, which are text, become records and samples.
CREATE VIEW timed AS
SELECT
    text_record.*, IF(whole(end_timestamp) IS NULL, NULL, whole(start_timestamp)) AS begin, whole(end_timestamp) AS finish,
    -- Copies of the host have no GPU, even if no list of agents says which agent is the host.
    COALESCE(
        IF(ends_with(direction, '_TO_HOST'), NULL, agent.device), IF(contains(direction, 'HOST_TO_'), NULL, source.device)
    ) AS device,
    IF(agent.is_listed, IF(agent.device IS NULL, 'cpu', 'hip'), NULL) AS device_type
FROM text_record LEFT JOIN agent ON text_record.process = agent.process AND agent_id = agent.called
LEFT JOIN agent AS source ON text_record.process = source.process AND source_agent_id = source.called;

-- Kernels of which counters alone were recorded are kernels; of those without times, one row is counted.
CREATE TABLE record AS
SELECT
    process, place, row, origin, shape, name, function, begin, finish, device, device_type, address, copy_args, graph,
    CASE shape WHEN 'kernel' THEN 'KERNEL_DISPATCH' WHEN 'copy' THEN 'MEMORY_COPY' ELSE cat END AS cat,
    whole(COLUMNS('^(thread|correlation|stream|queue|dispatch|kernel)_id$|^.*_count$|^(.*_)?size(_[xyz])?$'))
FROM (
    FROM timed WHERE shape <> 'counter' OR shape IS NULL AND NOT is_loaded(begin, finish)
    UNION ALL
    SELECT DISTINCT ON (process, place, row) * FROM timed WHERE shape = 'counter' AND NOT is_loaded(begin, finish)
    UNION ALL
    SELECT DISTINCT ON (process, dispatch_id) * REPLACE ('kernel' AS shape) FROM timed
    ANTI JOIN (SELECT process FROM timed WHERE shape = 'kernel' AND is_loaded(begin, finish)) USING (process)
    WHERE shape = 'counter' AND is_loaded(begin, finish) ORDER BY process, dispatch_id, place, row
)
WHERE begin IS NOT NULL;

-- The counters of kernels, which are summed over the units of the GPU.
CREATE TABLE counter_value AS
SELECT *, TRY_CAST(counter_value AS DOUBLE) AS number, IF(isfinite(number), number, NULL) AS value FROM timed
WHERE shape = 'counter' AND counter_name IS NOT NULL AND is_loaded(begin, finish);

INSERT INTO sample BY NAME
SELECT
    process, MIN(row_key(process, place, row)) AS key, counter_name AS name, begin AS ts, any_value(device) AS device,
    IF(COUNT(value) = COUNT(*), SUM(value), NULL) AS value
FROM counter_value GROUP BY process, counter_name, agent_id, begin;

INSERT INTO unread
SELECT process, what, COUNT(*) FROM timed WHERE begin IS NULL OR shape IS NULL AND is_loaded(begin, finish) GROUP BY process, what
UNION ALL
SELECT process, 'values of ' || origin, COUNT(*) FROM counter_value
WHERE value IS NULL AND lower(trim(counter_value)) NOT IN ('', 'n/a', 'na', 'nan', 'null', 'none') GROUP BY process, origin;
