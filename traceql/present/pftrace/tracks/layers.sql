-- One slice per layer of a forward pass, from its first kernel to its last one.
SELECT
    rank,
    'Layers' || COALESCE(' · GPU ' || device_if_several(rank, device), '') AS track,
    ts, dur,
    'layer' AS cat,
    'layer ' || layer AS name,
    CASE layer % 2 WHEN 0 THEN 'even layer' ELSE 'odd layer' END AS colour, -- shows where one ends
    step_id, device, pass, layer, busy_ns, compute_ns, comm_ns, idle_ns,
    'SELECT * FROM layer WHERE rank = ' || rank || ' AND device = ' || device || COALESCE(' AND step_id = ' || step_id, '')
    || COALESCE(' AND pass = ' || pass, '') || ' AND layer = ' || layer AS sql
FROM layer
ORDER BY rank, track, ts, dur DESC, pass, layer, step_id
