-- One row per call in which a launching thread stood still, and its device had nothing to do because of that.
--
-- First calls, which load modules and set up libraries, and what the profiler does itself do not count.
-- @kind   scratch
-- @scope  run
-- @needs  event_kind, kernel, launch, lost_interval, slice, step
-- @empty_unless launch
-- @column kind       VARCHAR  stopped (more than 1 ms in a call that does not block), paused (4.9 to 5.4 ms in an annotation, but in no call), sync (it waited for the device), allocation (of device memory) or module (code was loaded onto the device).
-- @column rank       BIGINT   Rank.
-- @column step_id    BIGINT   Step in which the call was made; NULL before the first one.
-- @column is_edge    BOOLEAN  Whether that is the first or the last step of the rank, or none.
-- @column id         BIGINT   Call (slice.id).
-- @column name       VARCHAR  Its name, and that of the operator around it.
-- @column ts         BIGINT   Start, ns since the run's first event.
-- @column dur        BIGINT   Duration, ns; of a stop, without the calls inside it.
-- @column idle_ns    HUGEINT  Idle time whose causes are host or sync: of this rank's device during the call; of a wait, from its end to the next kernel.
-- @column is_inside  BOOLEAN  Whether that kernel, or the call, belongs to the same step as the kernel before it.
-- @column root_step_id BIGINT Step that the idle time belongs to (lost_interval.root_step_id).
WITH idle AS (
    SELECT
        lost_interval.rank, lost_interval.step_id, lost_interval.ts, lost_interval.dur,
        lost_interval.ts >= step.gpu_ts AS is_inside
    FROM lost_interval
    LEFT JOIN step ON lost_interval.step_id = step.step_id
    WHERE lost_interval.part = 'idle' AND lost_interval.cause IN ('host', 'sync')
),
launching AS (
    SELECT DISTINCT rank, track_id FROM slice WHERE id IN (SELECT launch_id FROM kernel)
),
call AS (
    SELECT slice.id, slice.rank, slice.track_id, slice.parent_id, slice.name, slice.ts, slice.dur, event_kind.kind
    FROM slice
    INNER JOIN event_kind USING (rank, cat)
    WHERE
        slice.track_id IN (SELECT track_id FROM launching)
        AND (
            (event_kind.kind IN ('launch', 'operator', 'annotation') AND slice.dur > 1000000)
            OR (
                event_kind.kind = 'launch'
                AND regexp_matches(slice.name, 'Synchronize|Memcpy|^(cuda|cu|hip)Mem(Alloc|Free|Create)|^(cuda|hip)(Malloc|Free)|(Module|Library)Load')
            )
        )
),
-- Where it is in no call inside it: between the ends of those before and the start of the next one.
border AS (
    SELECT id, ts, ts AS end_ts FROM call WHERE dur > 1000000
    UNION ALL
    SELECT id, ts + dur, ts + dur FROM call WHERE dur > 1000000
    UNION ALL
    SELECT slice.parent_id, slice.ts, slice.ts + slice.dur
    FROM slice
    INNER JOIN call ON slice.parent_id = call.id
    WHERE call.dur > 1000000
),
piece AS (
    SELECT
        id,
        MAX(end_ts) OVER (PARTITION BY id ORDER BY ts, end_ts ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS begin_ts,
        ts AS end_ts
    FROM border
),
-- Calls that can block for other reasons than the device do not count.
own AS (
    SELECT call.id, call.rank, call.name, call.kind, call.parent_id, piece.begin_ts AS ts, piece.end_ts - piece.begin_ts AS dur
    FROM piece
    INNER JOIN call USING (id)
    WHERE
        piece.end_ts - piece.begin_ts > 1000000
        AND NOT (call.kind = 'launch' AND regexp_matches(call.name, 'Synchronize|Memcpy|Malloc|Free|Alloc|Module|Library|Instantiate|Query'))
        AND NOT EXISTS (
            SELECT 1
            FROM slice AS overhead
            WHERE
                overhead.rank = call.rank
                -- What the profiler itself does, by CUPTI's names.
                AND overhead.name IN (
                    'Activity Buffer Request', 'Command Buffer Full', 'Instrumentation', 'Lazy Function Loading',
                    'Resource', 'Runtime Triggered Module Loading', 'Overhead'
                )
                AND overhead.ts < piece.end_ts AND overhead.ts + overhead.dur > piece.begin_ts
        )
),
usual AS (
    SELECT rank, name, MIN(ts) AS first_ts, MEDIAN(dur) AS ns
    FROM slice
    WHERE name IN (SELECT name FROM own) OR name IN (SELECT slice.name FROM slice INNER JOIN own ON slice.id = own.parent_id)
    GROUP BY rank, name
),
stop AS (
    SELECT own.*
    FROM own
    INNER JOIN usual USING (rank, name)
    LEFT JOIN slice AS parent ON own.parent_id = parent.id
    LEFT JOIN usual AS of_parent ON own.rank = of_parent.rank AND parent.name = of_parent.name
    WHERE
        (own.kind = 'annotation' AND own.dur BETWEEN 4900000 AND 5400000)
        OR (own.kind <> 'annotation' AND own.ts > usual.first_ts + own.dur AND own.dur > 10 * usual.ns AND parent.ts IS DISTINCT FROM of_parent.first_ts)
),
-- Copies to the host into memory that is not pinned wait for all that the stream had to do.
wait AS (
    SELECT call.*
    FROM call
    LEFT JOIN kernel ON call.id = kernel.launch_id
    WHERE
        contains(call.name, 'Synchronize')
        OR (contains(call.name, 'Memcpy') AND contains(kernel.name, 'DtoH') AND kernel.ts + kernel.dur <= call.ts + call.dur)
),
after_wait AS (
    SELECT wait.*, idle.step_id AS root_step_id, idle.is_inside, idle.ts + idle.dur - GREATEST(idle.ts, 0) AS idle_ns
    FROM wait
    ASOF INNER JOIN idle ON wait.rank = idle.rank AND wait.ts + wait.dur >= idle.ts
    WHERE idle.ts >= wait.ts AND idle.ts + idle.dur > wait.ts + wait.dur
),
during AS (
    SELECT CASE kind WHEN 'annotation' THEN 'paused' ELSE 'stopped' END AS kind, id, rank, name, parent_id, ts, dur FROM stop
    UNION ALL
    SELECT
        CASE WHEN regexp_matches(name, 'Module|Library') THEN 'module' ELSE 'allocation' END, id, rank, name, parent_id, ts, dur
    FROM call
    WHERE regexp_matches(name, '^(cuda|cu|hip)Mem(Alloc|Free|Create)|^(cuda|hip)(Malloc|Free)|(Module|Library)Load')
),
lasting AS (
    SELECT
        during.kind, during.id, during.rank, during.name, during.parent_id, during.ts, during.dur,
        COALESCE(SUM(LEAST(during.ts + during.dur, idle.ts + idle.dur) - GREATEST(during.ts, idle.ts)), 0) AS idle_ns,
        BOOL_OR(idle.is_inside) AS is_inside,
        arg_max(idle.step_id, LEAST(during.ts + during.dur, idle.ts + idle.dur) - GREATEST(during.ts, idle.ts)) AS root_step_id
    FROM during
    LEFT JOIN idle ON during.rank = idle.rank AND idle.ts < during.ts + during.dur AND during.ts < idle.ts + idle.dur
    GROUP BY ALL
),
found AS (
    FROM lasting
    UNION ALL BY NAME
    SELECT 'sync' AS kind, id, rank, name, parent_id, ts, dur, idle_ns, is_inside, root_step_id FROM after_wait
),
edge AS (
    SELECT rank, MIN(ts) AS first_ts, MIN(ts) FILTER (number > 0) AS begin_ts, MAX(ts) AS end_ts
    FROM step
    GROUP BY rank
)
SELECT
    found.kind, found.rank, launch.step_id,
    COALESCE(found.ts < edge.begin_ts OR found.ts > edge.end_ts, TRUE) AS is_edge,
    found.id,
    concat_ws(' in ', found.name, CASE WHEN NOT starts_with(parent.name, 'execute_') THEN parent.name END) AS name,
    found.ts, found.dur, found.idle_ns, found.is_inside, found.root_step_id
FROM found
LEFT JOIN launch USING (id)
LEFT JOIN slice AS parent ON found.parent_id = parent.id
LEFT JOIN edge ON found.rank = edge.rank
