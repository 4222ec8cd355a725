-- The first recorded steps take longer, and ranks begin at different times, because the profiler starts.
-- @title   start of the profiler
-- @group   recording
-- @most    remark
-- @query   steps.timeline
-- @record  Record at least four steps.
-- @source  own: ranks began up to 80 ms apart in recordings of vLLM; the pass without the profiler has no such start
-- @needs   engine_step, time_unit
WITH timed AS (
    SELECT
        rank, number, span_ns,
        MEDIAN(span_ns) FILTER (NOT is_edge) OVER (PARTITION BY rank, phase) AS usual_ns,
        ROW_NUMBER() OVER (PARTITION BY rank ORDER BY number) - 1 AS place
    FROM engine_step
),
-- Steps from the first one on that take 1.5 times as long as others of their phase, and a millisecond more.
long AS (
    SELECT *, SUM(CASE WHEN span_ns > 1.5 * usual_ns AND span_ns > usual_ns + 1000000 THEN 0 ELSE 1 END) OVER (
        PARTITION BY rank ORDER BY number ROWS UNBOUNDED PRECEDING
    ) = 0 AS is_long
    FROM timed
),
counted AS (
    SELECT
        COUNT(*) AS steps,
        MAX(place) FILTER (is_long) + 1 AS long_steps,
        MAX(span_ns) FILTER (is_long) AS span_ns,
        arg_max(usual_ns, span_ns) FILTER (is_long) AS usual_ns,
        COUNT(DISTINCT number) AS numbers
    FROM long
),
waited AS (
    SELECT
        list({'unit': unit, 'ns': ns} ORDER BY unit) AS claims,
        COALESCE(MAX(longest_ns), 0) AS longest_ns,
        arg_max(rank, longest_ns) AS rank,
        arg_max(longest_ts, longest_ns) AS ts
    FROM time_unit
    WHERE part = 'lost' AND cause = 'start'
)
SELECT
    CASE
        WHEN waited.longest_ns > 1000000 OR counted.long_steps > 0 THEN TRUE
        WHEN counted.numbers >= 4 THEN FALSE
    END AS is_confirmed,
    CASE
        WHEN counted.numbers >= 4 THEN 'the first steps take as long as others of their phase, and ranks begin within a millisecond'
        ELSE format('too few steps to see it: {}', counted.numbers)
    END AS reason,
    CASE
        WHEN waited.longest_ns > 1000000 THEN format('Ranks begin up to {:.1f} ms apart, as the profiler starts', waited.longest_ns / 1e6)
        ELSE format('The first step takes {:.1f} ms, others of its phase {:.1f}', counted.span_ns / 1e6, counted.usual_ns / 1e6)
    END AS headline,
    [
        CASE WHEN waited.longest_ns > 1000000
            THEN format('A rank waits {:.1f} ms in the first operation until the others begin.', waited.longest_ns / 1e6)
        END,
        CASE WHEN counted.long_steps > 0
            THEN format(
                'The first {} takes up to {:.1f} ms; others of the phase take {:.1f} ms.',
                CASE counted.long_steps WHEN 1 THEN 'step' ELSE format('{} steps: one', counted.long_steps) END,
                counted.span_ns / 1e6, counted.usual_ns / 1e6
            )
        END
    ] AS evidence,
    format(
        'Leave out the first {} when you compare steps, or record more of them',
        CASE COALESCE(counted.long_steps, 1) WHEN 1 THEN 'step' ELSE format('{} steps', counted.long_steps) END
    ) AS remedy,
    waited.claims, TRUE AS is_remark, waited.rank, waited.ts, waited.longest_ns AS dur
FROM counted
CROSS JOIN waited
