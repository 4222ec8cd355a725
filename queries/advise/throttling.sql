-- One row per run: whether a power cap or heat held the clocks of its GPUs down.
--
-- Samples are 100 ms apart, of the time in which the profiler recorded. The finding 'throttling' has how
-- much clock speed was lost.
-- @column item      VARCHAR  What is checked.
-- @column state     VARCHAR  ok, look (may cost time) or unknown (not in the recording).
-- @column evidence  VARCHAR  The numbers; of what is unknown, why.
-- @column advice    VARCHAR  What to try; NULL unless the state is look.
-- @column query     VARCHAR  The query that shows more; NULL if there is none.
-- @key    item state evidence advice query
-- @empty  it always has one row
-- @chart  none
WITH counted AS (
    SELECT
        COUNT(*) AS samples,
        COUNT(*) FILTER (throttled) AS throttled,
        MIN(sm_clock_mhz) AS least_mhz,
        MAX(sm_clock_mhz) AS most_mhz,
        MAX(power_mw) / 1000 AS watts
    FROM telemetry
    WHERE in_window AND rank IS NOT NULL
),
judged AS (
    SELECT
        *,
        CASE
            WHEN samples = 0 THEN 'unknown'
            WHEN throttled > 0 THEN 'look'
            ELSE 'ok'
        END AS state
    FROM counted
)
SELECT
    'throttling' AS item,
    state,
    CASE
        WHEN samples = 0 THEN 'the recording has no samples of NVML'
        ELSE format(
            '{:,} of {:,} samples were throttled; SM clock {:,} to {:,} MHz, at most {:.0f} W', throttled, samples, least_mhz, most_mhz, watts
        )
    END AS evidence,
    CASE
        WHEN state = 'look' THEN 'Check the power cap and the cooling; compare only runs with equal clocks.'
    END AS advice,
    'gpu.telemetry' AS query
FROM judged
