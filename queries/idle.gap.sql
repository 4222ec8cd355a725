-- One row per kind of host event during one GPU gap: how long the host was in it.
--
-- Use it to see what the host did during the longest gap, or during the Nth longest (idle.gaps
-- lists them). The times are self times on the thread that requested the kernel after the gap
-- (gap.track_id): time counts for the innermost event only. They add up to the gap.
-- @param  gap        INTEGER = 1     Which gap: 1 is the longest.
-- @param  rank       BIGINT  = NULL  Only gaps of this rank; all by default.
-- @param  cause      VARCHAR = NULL  Only gaps of this cause; all by default.
-- @values cause      sync host dependency launch 'not recorded' unknown
-- @column rank       BIGINT   Rank.
-- @column ts         BIGINT   Start of the gap, ns since the run's first event.
-- @column dur        BIGINT   Duration of the gap, ns.
-- @column cause      VARCHAR  Cause of the gap (see gap.cause).
-- @column step_id    BIGINT   Step of the kernel that ends the gap.
-- @column doing      VARCHAR  What the host did; "(no event recorded)" if the thread was in no event.
-- @column cat        VARCHAR  Event category: cpu_op, user_annotation, python_function, cuda_runtime ...
-- @column events     BIGINT   Number of events of this name.
-- @column self_ns    BIGINT   Self time of these events in the gap, ns.
-- @column share_pct  DOUBLE   Percent of the gap.
-- @key    rank dur cause doing self_ns share_pct cat step_id ts
-- @empty  there is no such gap, or the launch call of the kernel that ended it is not in the trace
-- @chart  bar x=self_ns y=doing
-- @title  What the host did during the gap
WITH chosen AS (
    SELECT gap.rank, gap.ts, gap.dur, gap.cause, gap.step_id, gap.track_id
    FROM gap
    WHERE
        ($rank::BIGINT IS NULL OR gap.rank = $rank::BIGINT)
        AND ($cause::VARCHAR IS NULL OR gap.cause = $cause::VARCHAR)
    ORDER BY gap.dur DESC, gap.rank, gap.ts
    LIMIT 1 OFFSET $gap::INTEGER - 1
),
placed AS (
    SELECT * FROM chosen WHERE track_id IS NOT NULL
),
inside AS (
    SELECT
        slice.*,
        GREATEST(slice.ts, placed.ts) AS begin_ts,
        LEAST(slice.ts + slice.dur, placed.ts + placed.dur) AS end_ts
    FROM placed
    INNER JOIN slice
        ON placed.track_id = slice.track_id
        AND slice.ts < placed.ts + placed.dur
        AND slice.ts + slice.dur > placed.ts
),
-- When an event begins, it becomes the innermost one; when it ends, its parent does.
edge AS (
    SELECT begin_ts AS ts, TRUE AS begins, depth, id FROM inside
    UNION ALL
    SELECT end_ts, FALSE, -depth, parent_id FROM inside
),
stretch AS (
    SELECT id, LEAD(ts) OVER (ORDER BY ts, begins, depth) - ts AS ns FROM edge
),
own AS (
    SELECT inside.id, inside.name, inside.cat, SUM(stretch.ns) AS ns
    FROM stretch
    INNER JOIN inside USING (id)
    GROUP BY inside.id, inside.name, inside.cat
    HAVING SUM(stretch.ns) > 0
),
doing AS (
    SELECT name, cat, COUNT(*) AS events, SUM(ns) AS ns FROM own GROUP BY name, cat
    UNION ALL
    SELECT '(no event recorded)', NULL, NULL, placed.dur - COALESCE((SELECT SUM(ns) FROM own), 0)
    FROM placed
)
SELECT
    placed.rank, placed.ts, placed.dur, placed.cause, placed.step_id,
    doing.name AS doing,
    doing.cat, doing.events,
    CAST(doing.ns AS BIGINT) AS self_ns,
    100.0 * doing.ns / placed.dur AS share_pct
FROM placed
CROSS JOIN doing
WHERE doing.ns > 0
ORDER BY doing.ns DESC, doing.name
