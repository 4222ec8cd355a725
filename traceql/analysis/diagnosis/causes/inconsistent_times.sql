-- Ranks were recorded at different times, or the clocks of a host and its device do not agree.
-- @title   times that do not fit together
-- @group   recording
-- @query   quality.ledger
-- @record  Load a recording with GPU activity.
-- @source  own: ranks of one run are recorded at the same time; a kernel cannot start before the call that launches it
-- @needs   disjoint_recording, host_clock, recorder
WITH apart AS (
    SELECT
        COUNT(*) AS ranks,
        string_agg(CAST(rank AS VARCHAR), ', ' ORDER BY rank) AS listed,
        ANY_VALUE(reference_rank) AS reference_rank,
        MIN(apart_ns) AS apart_ns
    FROM disjoint_recording
),
clock AS (
    SELECT
        COUNT(*) FILTER (NOT agrees) AS ranks,
        string_agg(CAST(rank AS VARCHAR), ', ' ORDER BY rank) FILTER (NOT agrees) AS listed,
        SUM(early) AS early, MAX(early_ns) AS early_ns,
        SUM(late) AS late, MAX(late_ns) AS late_ns,
        MAX(ABS(drift_ns)) AS drift_ns
    FROM host_clock
),
recorded AS (
    SELECT COUNT(first_ns) AS ranks FROM recorder
)
SELECT
    CASE WHEN recorded.ranks > 0 THEN apart.ranks > 0 OR clock.ranks > 0 END AS is_confirmed,
    CASE
        WHEN recorded.ranks = 0 THEN 'no rank has events'
        ELSE 'ranks were recorded at the same time, and clocks agree'
    END AS reason,
    CASE
        WHEN apart.ranks > 0 THEN format(
            'Rank{} {} {} recorded {:,.1f} s apart from rank {}', CASE WHEN apart.ranks > 1 THEN 's' ELSE '' END,
            CASE WHEN apart.ranks > 4 THEN format('(of which {})', apart.ranks) ELSE apart.listed END,
            CASE WHEN apart.ranks > 1 THEN 'were' ELSE 'was' END, apart.apart_ns / 1e9, apart.reference_rank
        )
        ELSE format('The clocks of host and device do not agree on rank {}', clock.listed)
    END AS headline,
    [
        CASE WHEN apart.ranks > 0 THEN 'They are not ranks of one run: waiting, skew and what runs at the same time mean nothing here.' END,
        CASE WHEN clock.ranks > 0 AND clock.early > 0
            THEN format('{:,} kernels start up to {:,.0f} us before the call that launches them.', clock.early, clock.early_ns / 1e3)
        END,
        CASE WHEN clock.ranks > 0 AND clock.late > 0
            THEN format('{:,} calls return up to {:,.0f} us before the kernel ends that they wait for.', clock.late, clock.late_ns / 1e3)
        END,
        CASE WHEN clock.ranks > 0 AND clock.drift_ns > 0
            THEN format('The clock of the device gains {:,.0f} us during the recording.', clock.drift_ns / 1e3)
        END,
        CASE WHEN clock.ranks > 0 THEN 'So what the device waited for is unknown on these ranks.' END
    ] AS evidence,
    CASE
        WHEN apart.ranks > 0 THEN 'Load each recording into a database of its own: traceql load RANK -o RANK.duckdb'
        ELSE 'Record again, with a newer version of the profiler if there is one: it converts the times'
    END AS remedy,
    apart.ranks > 0 AS is_severe,
    clock.ranks > 0 AS is_notable
FROM apart
CROSS JOIN clock
CROSS JOIN recorded
