-- One row per activity of a captured graph (ACL graph) of an Ascend profile: the call that replayed it.
--
-- Such tasks have no launch call of their own. Each replay runs every task of the graph once, so the
-- n-th time of a task is in the n-th replay, and replays begin in the order of their calls. If there
-- are more calls than replays, or fewer, it is unknown which call belongs to which. An operation of
-- communication has no number of a task: it belongs to the replay that began last before it.
-- @kind   scratch
-- @scope  rank
-- @needs  activity, launch, slice, trace
-- @empty_unless trace WHERE dialect = 'ascend'
-- @column id         BIGINT  Id of the activity; the same number as slice.id.
-- @column launch_id  BIGINT  Call that replayed the graph (launch.id); NULL if unknown.
WITH ran AS MATERIALIZED (  -- so that the arguments of other profilers are not read
    SELECT slice.id, slice.rank, slice.ts, slice.args
    FROM slice
    INNER JOIN activity USING (id)
    INNER JOIN trace ON slice.rank = trace.rank
    WHERE trace.dialect = 'ascend'
),
told AS (
    SELECT
        id,
        rank,
        ts,
        json_extract_string(
            args, ['$."Model Id"', '$."Physic Stream Id"', '$."Stream Id"', '$."Task Id"']
        ) AS args
    FROM ran
    -- The largest number of 32 bits stands for no graph.
    WHERE args LIKE '%"Model Id"%' AND json_extract_string(args, '$."Model Id"') <> '4294967295'
),
operation AS (
    SELECT id, rank, ts, json_extract_string(args, '$."model id"') AS model
    FROM ran
    WHERE args LIKE '%"model id"%' AND json_extract_string(args, '$."model id"') <> '4294967295'
),
task AS (
    SELECT
        id,
        rank,
        ts,
        args[1] AS model,
        ROW_NUMBER() OVER (PARTITION BY rank, args ORDER BY ts, id) AS number
    FROM told
),
replay AS (
    SELECT
        rank,
        model,
        number,
        MIN(ts) AS ts,
        ROW_NUMBER() OVER (PARTITION BY rank ORDER BY MIN(ts)) AS place,
        COUNT(*) OVER (PARTITION BY rank) AS replays
    FROM task
    GROUP BY rank, model, number
),
call AS (
    SELECT
        rank,
        id,
        ROW_NUMBER() OVER (PARTITION BY rank ORDER BY ts, id) AS place,
        COUNT(*) OVER (PARTITION BY rank) AS calls
    FROM launch
    WHERE regexp_matches(name, 'aclmdlRIExecuteAsync')
),
inside AS (
    SELECT task.id, replay.rank, replay.place, replay.replays
    FROM task
    INNER JOIN replay USING (rank, model, number)
    UNION ALL
    SELECT operation.id, operation.rank, replay.place, replay.replays
    FROM operation
    ASOF LEFT JOIN replay
        ON operation.rank = replay.rank AND operation.model = replay.model AND operation.ts >= replay.ts
)
SELECT inside.id, call.id AS launch_id
FROM inside
LEFT JOIN call
    ON inside.rank = call.rank AND inside.place = call.place AND inside.replays = call.calls
