-- One row per kind of step and kind of change: by how much it makes the recording of new longer than that of base.
--
-- Use it to separate more work from slower work: work is the steps that came or went, each with base's mean
-- time; speed is what the same steps take longer. delta_ns adds up to the difference of the two
-- recordings, on one device, to the nanosecond: of each side the one of median length.
-- @param  by          VARCHAR = stratum  One row per kind of step and change; or per part of the time and change; or per change alone.
-- @values by          stratum part change
-- @column name        VARCHAR  Kind of step (stratum, without the lengths of the KV cache), incomplete units, or outside steps; or the part of the time, as in the query waterfall; or the change.
-- @column change      VARCHAR  work (more or fewer steps), speed (the same steps took longer or shorter), only one side (the other has no such steps) or outside (of steps).
-- @column delta_ns    BIGINT   Time that the recording of new is longer, ns.
-- @column base_steps  BIGINT   Steps in the recording of base, if the row is one kind of step; NULL if it has none.
-- @column new_steps   BIGINT   The same of new.
-- @key    name change delta_ns base_steps new_steps
-- @empty  the two recordings are equally long in every part, or have nothing on a GPU
-- @chart  bar x=delta_ns y=name color=change
-- @title  More work, or slower work?
WITH rows_of AS (
    SELECT total_run.side, profile_stratum.stratum, profile_stratum.units AS steps
    FROM total_run
    INNER JOIN profile_stratum USING (side, run)
    WHERE profile_stratum.grain = 'rows'
),
summed AS (
    SELECT
        CASE $by::VARCHAR WHEN 'stratum' THEN stratum WHEN 'part' THEN part ELSE change END AS name,
        change,
        CAST(SUM(delta_ns) AS BIGINT) AS delta_ns
    FROM total
    GROUP BY ALL
)
SELECT
    summed.name, summed.change, summed.delta_ns,
    before.steps AS base_steps,
    after.steps AS new_steps
FROM summed
LEFT JOIN (FROM rows_of WHERE side = 'base') AS before ON summed.name = before.stratum
LEFT JOIN (FROM rows_of WHERE side = 'new') AS after ON summed.name = after.stratum
ORDER BY SUM(ABS(summed.delta_ns)) OVER (PARTITION BY summed.name) DESC, summed.name, ABS(summed.delta_ns) DESC, summed.change
