-- One row per rank, phase and stack of host events: how long the host was in this stack.
--
-- Use it to see which code, operators and runtime calls the launching thread spends its time in; on
-- Ascend, the threads whose operators ask for work, not torch_npu's queue, which launches it. A
-- stack is an event and all events around it, as recorded: Python frames, annotations, operators,
-- and runtime or driver calls. Events of the same name in the same stack are one row. Names count
-- as the same if only hashes, counts, addresses or the number of a module differ.
--
-- The rows are in the order of a tree: after each row come the rows inside it, the longest first.
-- Depth 0 is the launching thread of a rank, named after the rank alone if it is the only one. Depth
-- 1 is the phase, at each instant that of the latest step that has begun; an event that lasts from
-- one step into the next is divided between them. Frames below min_pct become "(smaller frames)",
-- so that nothing is lost: total_ns is self_ns plus total_ns of the rows directly inside, and self_ns
-- of all rows adds up to the time during which the threads were in any event.
-- @param  rank       BIGINT  = NULL  Only this rank; all ranks by default.
-- @param  phase      VARCHAR = NULL  Only this phase; all by default.
-- @values phase      prefill decode mixed idle
-- @param  min_pct    DOUBLE  = 0.5   Smallest share of a frame, in percent of the thread's time in events, in the requested phase if there is one; 0 for all frames.
-- @column rank       BIGINT   Rank.
-- @column phase      VARCHAR  prefill, decode, mixed or idle; NULL before the first step and where the phase is unknown.
-- @column depth      BIGINT   Number of rows around this one: 0 for the thread, 1 for a phase, 2 and more for events.
-- @column name       VARCHAR  Name of the event; "(smaller frames)" for all frames below min_pct in this place.
-- @column total_ns   BIGINT   Time in the events, with the events inside them, ns.
-- @column self_ns    BIGINT   Self time: time in the events, but not in events inside them, ns; for smaller frames the same as total_ns.
-- @column share_pct  DOUBLE   total_ns in percent of the thread's time in events, in the requested phase if there is one.
-- @column calls      BIGINT   Number of events that began in this phase; NULL for a thread and a phase.
-- @column kind       VARCHAR  thread, phase, python, annotation, operator, runtime (runtime or driver call), other or smaller.
-- @column start_ns   BIGINT   Where a drawing places the row: total_ns of what is drawn before it in the same thread, ns.
-- @column stack      VARCHAR  Names from the thread inwards, separated by semicolons; a semicolon in a name becomes a comma, and a line break a space.
-- @key    rank phase depth name total_ns self_ns share_pct kind calls
-- @empty  no host events were recorded on a thread that launches GPU work, or no step has this phase; record operators, annotations or Python stacks
-- @chart  flame x=start_ns width=total_ns y=depth text=name color=kind own=self_ns
-- @title  Host time by stack
WITH RECURSIVE host_slice AS (
    SELECT slice.*, event_kind.kind
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE event_kind.kind IN ('launch', 'operator', 'annotation', 'frame')
        AND ($rank::BIGINT IS NULL OR slice.rank = $rank::BIGINT)
),
-- The threads that requested GPU activities: those of the operators where these are known (launch_origin), else
-- those that launched them; of a rank without any, those with operators, if there are any.
chosen AS MATERIALIZED (
    SELECT
        rank, track_id,
        CASE
            WHEN track_id IN (SELECT track_id FROM launch_origin) THEN 3
            WHEN BOOL_OR(id IN (SELECT launch_id FROM kernel)) THEN 2
            WHEN BOOL_OR(kind = 'operator') THEN 1
            ELSE 0
        END AS precedence
    FROM host_slice
    GROUP BY rank, track_id
    QUALIFY precedence = MAX(precedence) OVER (PARTITION BY rank)
),
called AS MATERIALIZED (
    SELECT
        slice.rank, slice.cat, slice.name,
        COALESCE(NULLIF(host_name(slice.name), ''), '(no name)') AS shown,
        CASE event_kind.kind
            WHEN 'frame' THEN 'python'
            WHEN 'launch' THEN 'runtime'
            WHEN 'annotation' THEN 'annotation'
            WHEN 'operator' THEN 'operator'
            ELSE 'other'
        END AS kind,
        DENSE_RANK() OVER (ORDER BY shown, event_kind.kind) AS name_id
    FROM (
        SELECT DISTINCT rank, cat, name FROM slice WHERE track_id IN (SELECT track_id FROM chosen)
    ) AS slice
    LEFT JOIN event_kind USING (rank, cat)
),
event AS MATERIALIZED (
    SELECT
        slice.id, slice.parent_id, slice.rank, slice.track_id, slice.ts,
        slice.ts + GREATEST(slice.dur, 0) AS end_ts,
        called.name_id
    FROM slice
    INNER JOIN called
        ON slice.rank = called.rank
        AND slice.cat IS NOT DISTINCT FROM called.cat
        AND slice.name IS NOT DISTINCT FROM called.name
    WHERE slice.track_id IN (SELECT track_id FROM chosen)
),
-- What overlaps without nesting has no parent; each instant counts for the event that began first.
outermost AS (
    SELECT
        id, track_id, name_id, end_ts,
        MAX(end_ts) OVER (
            PARTITION BY track_id ORDER BY ts, end_ts DESC, id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS from_ts
    FROM event
    WHERE parent_id IS NULL
),
-- A node is a stack; its id is that of its first event.
placed AS (
    SELECT
        id,
        CAST(-1 AS BIGINT) AS outer_id,
        MIN(id) OVER (PARTITION BY track_id, name_id) AS node_id,
        from_ts
    FROM outermost
    WHERE from_ts IS NULL OR end_ts > from_ts
    UNION ALL
    SELECT
        event.id, placed.node_id,
        MIN(event.id) OVER (PARTITION BY placed.node_id, event.name_id),
        placed.from_ts
    FROM placed
    INNER JOIN event ON placed.id = event.parent_id
    WHERE placed.from_ts IS NULL OR event.end_ts > placed.from_ts
),
stretch AS MATERIALIZED (
    SELECT *, COALESCE(LEAD(ts) OVER (PARTITION BY rank ORDER BY ts), 1::BIGINT << 62) AS end_ts
    FROM (
        SELECT DISTINCT rank, -(1::BIGINT << 62) AS ts, CAST(NULL AS VARCHAR) AS phase FROM chosen
        UNION ALL
        SELECT rank, ts, phase FROM step
    )
),
begun AS MATERIALIZED (
    SELECT shown.*, stretch.phase, stretch.end_ts AS until_ts
    FROM (
        SELECT
            event.rank, placed.node_id, placed.outer_id,
            GREATEST(event.ts, placed.from_ts) AS ts,
            event.end_ts
        FROM placed
        INNER JOIN event USING (id)
    ) AS shown
    ASOF INNER JOIN stretch ON shown.rank = stretch.rank AND shown.ts >= stretch.ts
),
piece AS (
    SELECT node_id, outer_id, phase, LEAST(end_ts, until_ts) - ts AS dur, 1 AS calls FROM begun
    UNION ALL
    SELECT begun.node_id, begun.outer_id, stretch.phase, LEAST(begun.end_ts, stretch.end_ts) - stretch.ts, 0
    FROM begun
    INNER JOIN stretch
        ON begun.rank = stretch.rank AND begun.until_ts <= stretch.ts AND begun.end_ts > stretch.ts
    WHERE begun.end_ts > begun.until_ts
),
node AS MATERIALIZED (
    SELECT
        node_id, outer_id,
        COALESCE(phase, '') AS phase,
        SUM(dur) AS total_ns,
        SUM(calls) AS calls
    FROM piece
    WHERE $phase::VARCHAR IS NULL OR phase = $phase::VARCHAR
    GROUP BY ALL
),
measured AS MATERIALIZED (
    SELECT
        node.*, event.track_id, event.name_id,
        node.total_ns - COALESCE(inside.total_ns, 0) AS self_ns,
        SUM(node.total_ns) FILTER (node.outer_id = -1) OVER (PARTITION BY event.track_id) AS thread_ns
    FROM node
    INNER JOIN event ON node.node_id = event.id
    LEFT JOIN (SELECT outer_id, phase, SUM(total_ns) AS total_ns FROM node GROUP BY ALL) AS inside
        ON node.node_id = inside.outer_id AND node.phase = inside.phase
),
-- What is around a small frame is not small, or is in the rest of something that is not.
large AS MATERIALIZED (
    SELECT measured.*, label.shown AS name, label.kind
    FROM measured
    INNER JOIN (SELECT DISTINCT name_id, shown, kind FROM called) AS label USING (name_id)
    WHERE 100.0 * measured.total_ns >= $min_pct::DOUBLE * measured.thread_ns
),
rest AS (
    SELECT
        small.track_id, small.phase, small.outer_id,
        SUM(small.total_ns) AS total_ns,
        SUM(small.calls) AS calls
    FROM (FROM measured ANTI JOIN large USING (node_id, phase)) AS small
    LEFT JOIN large ON small.outer_id = large.node_id AND small.phase = large.phase
    WHERE small.outer_id = -1 OR large.node_id IS NOT NULL
    GROUP BY small.track_id, small.phase, small.outer_id
),
thread AS MATERIALIZED (
    SELECT
        track.id, track.rank,
        'rank ' || track.rank || CASE
            WHEN COUNT(*) OVER (PARTITION BY track.rank) > 1
                THEN ', ' || COALESCE(track.thread_name, 'thread ' || track.tid)
            ELSE ''
        END AS name
    FROM track
    WHERE track.id IN (SELECT track_id FROM chosen)
),
-- Threads have the id -2, phases -1, and what is left of them -3.
frame AS (
    SELECT
        measured.track_id,
        'all' AS phase,
        -2 AS id,
        NULL AS outer_phase,
        NULL AS outer_id,
        thread.name,
        'thread' AS kind,
        SUM(measured.total_ns) AS total_ns,
        0 AS self_ns,
        NULL AS calls
    FROM measured
    INNER JOIN thread ON measured.track_id = thread.id
    WHERE measured.outer_id = -1
    GROUP BY measured.track_id, thread.name
    UNION ALL
    SELECT
        track_id, phase, -1, 'all', -2, COALESCE(NULLIF(phase, ''), '(no phase)'), 'phase', SUM(total_ns), 0, NULL
    FROM measured
    WHERE outer_id = -1
    GROUP BY track_id, phase
    UNION ALL
    SELECT track_id, phase, node_id, phase, outer_id, name, kind, total_ns, self_ns, calls FROM large
    UNION ALL
    SELECT track_id, phase, -3, phase, outer_id, '(smaller frames)', 'smaller', total_ns, total_ns, calls FROM rest
),
sibling AS MATERIALIZED (
    SELECT
        *,
        ROW_NUMBER() OVER largest_first AS position,
        SUM(total_ns) OVER (largest_first ROWS UNBOUNDED PRECEDING) - total_ns AS before_ns,
        regexp_replace(replace(name, ';', ','), '[\r\n]+', ' ', 'g') AS word
    FROM frame
    WINDOW largest_first AS (
        PARTITION BY track_id, outer_phase, outer_id
        ORDER BY kind = 'smaller', total_ns DESC, name, kind, id, phase
    )
),
drawn AS (
    SELECT
        sibling.*, thread.rank,
        sibling.total_ns AS thread_ns,
        0 AS depth,
        CAST(0 AS HUGEINT) AS start_ns,
        [ROW_NUMBER() OVER (ORDER BY thread.rank, sibling.total_ns DESC, thread.id)] AS place,
        sibling.word AS stack
    FROM sibling
    INNER JOIN thread ON sibling.track_id = thread.id
    WHERE sibling.outer_id IS NULL
    UNION ALL
    SELECT
        sibling.*, drawn.rank, drawn.thread_ns,
        drawn.depth + 1,
        drawn.start_ns + sibling.before_ns,
        drawn.place || [sibling.position],
        drawn.stack || ';' || sibling.word
    FROM drawn
    INNER JOIN sibling
        ON drawn.track_id = sibling.track_id
        AND drawn.phase = sibling.outer_phase
        AND drawn.id = sibling.outer_id
)
SELECT
    rank,
    CASE WHEN kind <> 'thread' THEN NULLIF(phase, '') END AS phase,
    CAST(depth AS BIGINT) AS depth,
    name,
    CAST(total_ns AS BIGINT) AS total_ns,
    CAST(self_ns AS BIGINT) AS self_ns,
    100.0 * total_ns / NULLIF(thread_ns, 0) AS share_pct,
    CAST(calls AS BIGINT) AS calls,
    kind,
    CAST(start_ns AS BIGINT) AS start_ns,
    stack
FROM drawn
ORDER BY place
