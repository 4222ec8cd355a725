-- One row per rank that was recorded at another time than the lowest rank with events.
--
-- Such recordings are not ranks of one run: nothing that compares the times of ranks holds. Clocks that
-- count from the start of a machine show it only if they are less than a minute apart; clocks of
-- different machines have nothing to do with each other.
-- Replicas that share nothing may begin apart.
-- @kind   scratch
-- @scope  run
-- @needs  load_check, recorder
-- @column rank            BIGINT  Rank.
-- @column reference_rank  BIGINT  Lowest rank with events.
-- @column apart_ns        BIGINT  Time between the two recordings, ns.
WITH replica AS (
    SELECT rank, value AS number FROM load_check WHERE check_name = 'replica'
),
reference AS (
    SELECT rank, first_ns, last_ns
    FROM recorder
    WHERE first_ns IS NOT NULL
    ORDER BY rank
    LIMIT 1
),
compared AS (
    SELECT
        recorder.rank,
        reference.rank AS reference_rank,
        GREATEST(recorder.first_ns - reference.last_ns, reference.first_ns - recorder.last_ns) AS apart_ns,
        -- Unix time is after 2001; no machine has been running for that long.
        LEAST(recorder.first_ns, reference.first_ns) > 1000000000000000000 AS are_unix_times
    FROM recorder
    CROSS JOIN reference
    LEFT JOIN replica AS own ON recorder.rank = own.rank
    LEFT JOIN replica AS other ON reference.rank = other.rank
    WHERE recorder.rank <> reference.rank AND own.number IS NOT DISTINCT FROM other.number
)
SELECT rank, reference_rank, apart_ns
FROM compared
WHERE apart_ns > 0 AND (are_unix_times OR apart_ns <= 60000000000)
