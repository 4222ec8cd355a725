-- What connects each rank's GPU to others: rules of table link, and the topology of the run.

CREATE OR REPLACE VIEW gpu_link AS
SELECT
    trace.rank,
    arg_min(link.link, link.position) AS link,
    arg_min(link.peak_gbps, link.position) AS peak_gbps
FROM trace
INNER JOIN link ON regexp_matches(trace.device_name, link.device)
WHERE
    link.link NOT LIKE 'NVLink%'
    OR NOT EXISTS (SELECT 1 FROM run WHERE document ->> '$.topology' IS NOT NULL)
    OR EXISTS (SELECT 1 FROM run WHERE regexp_matches(document ->> '$.topology', 'NV\d+'))
GROUP BY trace.rank;

COMMENT ON VIEW gpu_link IS 'One row per rank whose link to other GPUs is known: by the device''s name and the topology in run.json.';
COMMENT ON COLUMN gpu_link.rank IS 'Rank.';
COMMENT ON COLUMN gpu_link.link IS 'What connects it to others.';
COMMENT ON COLUMN gpu_link.peak_gbps IS 'Its peak in one direction, 1e9 bytes per second.';
