-- Launching threads stop inside calls that do not block: something else has their core, or Python's lock.
--
-- CPython gives its lock (GIL) to another thread for at least 5 ms. The scheduler of Linux gives a core to
-- another process for slices of 4, 8 or 12 ms.
-- @title   a starved launching thread
-- @group   host
-- @unless  slow_host_rank
-- @query   idle.host
-- @record  Record CPU activities too.
-- @source  recordings with a second Python thread (16 stops of 5.0 to 5.2 ms) and with a busy core (51 stops, mostly of 8 and 12 ms)
-- @needs   host_stall, launch, lost_pct, stall_claim, time_scale, wording
WITH stop AS (
    SELECT
        COUNT(*) FILTER (kind = 'stopped') AS calls,
        COUNT(*) FILTER (kind = 'stopped' AND dur BETWEEN 4900000 AND 5400000) AS switches,
        COUNT(*) FILTER (kind = 'paused' AND dur BETWEEN 4900000 AND 5400000) AS paused,
        COUNT(DISTINCT rank) FILTER (kind = 'stopped') AS ranks,
        MODE(rank) FILTER (kind = 'stopped') AS rank,
        QUANTILE_CONT(dur, 0.1) FILTER (kind = 'stopped') AS short_ns,
        QUANTILE_CONT(dur, 0.9) FILTER (kind = 'stopped') AS long_ns,
        COALESCE(switches >= 0.5 * calls, FALSE) AS is_switching
    FROM host_stall
    WHERE NOT is_edge AND idle_ns > 0.5 * dur
),
-- With Python's lock, the thread also stops between its calls.
lost AS (
    SELECT
        SUM(stall_claim.ns) AS ns,
        flatten(list(stall_claim.claims)) AS claims,
        arg_max(stall_claim.rank, stall_claim.dur) AS rank,
        arg_max(stall_claim.ts, stall_claim.dur) AS ts,
        MAX(stall_claim.dur) AS dur
    FROM stall_claim
    CROSS JOIN stop
    WHERE stall_claim.kind = 'stopped' OR (stall_claim.kind = 'paused' AND stop.is_switching)
),
measured AS (
    SELECT
        COALESCE(lost_pct(lost.ns, time_scale), 0) AS pct,
        time_scale.devices * time_scale.steps AS device_steps
    FROM time_scale
    CROSS JOIN lost
),
recorded AS (
    SELECT COUNT(*) AS launches FROM launch
)
SELECT
    CASE
        WHEN recorded.launches = 0 THEN NULL
        ELSE stop.calls >= 10 AND measured.pct >= 1
    END AS is_confirmed,
    CASE
        WHEN recorded.launches = 0 THEN 'launch calls were not recorded'
        WHEN stop.calls = 0 THEN 'no launching thread stops for more than 1 ms in a call that does not block'
        WHEN stop.calls < 10 THEN format('fewer than 10 stops of more than 1 ms prove nothing: {}', stop.calls)
        WHEN measured.pct < 1 THEN 'stops of launching threads cost less than 1% of a step'
    END AS reason,
    CASE
        WHEN stop.is_switching
            THEN format('Launching threads stop {} times for 5 ms: other Python threads hold the lock', stop.calls + stop.paused)
        ELSE format(
            'Launching threads of {} stop {} times, for {:.1f} to {:.1f} ms',
            CASE WHEN stop.ranks = 1 THEN format('rank {}', stop.rank) ELSE format('{} ranks', stop.ranks) END,
            stop.calls, stop.short_ns / 1e6, stop.long_ns / 1e6
        )
    END AS headline,
    [
        format(
            '{} stops of {:.1f} to {:.1f} ms lie inside calls that do not block, on {}.',
            stop.calls, stop.short_ns / 1e6, stop.long_ns / 1e6,
            CASE WHEN stop.ranks = 1 THEN format('rank {}', stop.rank) ELSE format('{} ranks', stop.ranks) END
        ),
        CASE
            WHEN stop.is_switching THEN format('{} of them last 4.9 to 5.4 ms: CPython gives its lock to another thread for 5 ms.', stop.switches)
            ELSE 'The scheduler of Linux gives a core to another process for slices of 4, 8 or 12 ms.'
        END,
        format('Meanwhile a {} loses {:.2f} ms a step, as recorded.', wording.device, lost.ns / 1e6 / measured.device_steps)
    ] AS evidence,
    CASE
        WHEN stop.is_switching THEN 'py-spy dump --pid PID (of a worker: which of its Python threads is busy), then end that thread or move it to a process of its own'
        ELSE 'ps -eo pid,psr,pcpu,comm (what shares the cores of the workers), then --numa-bind or taskset -cp CORES PID'
    END AS remedy,
    'What ran instead: the trace has only the threads that launch.' AS unknowns,
    lost.claims, stop.calls AS samples, lost.rank, lost.ts, lost.dur,
    CASE WHEN stop.calls < 10 AND recorded.launches > 0 THEN 'no stops of launching threads' END AS fine
FROM stop
CROSS JOIN lost
CROSS JOIN measured
CROSS JOIN recorded
CROSS JOIN wording
