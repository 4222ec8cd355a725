-- One row per finding: a cause that the diagnosis confirms, the most severe first.
--
-- Table internal.diagnosis has the causes that are ruled out or undecided, too.
-- @schema main
-- @scope  run
-- @needs  diagnosis, lost_records
-- @column rank_order       BIGINT     Position of the finding, from 1.
-- @column severity         VARCHAR    severe, notable, or remark: it costs nothing that is worth a change.
-- @column cause            VARCHAR    Id of the cause (reference.cause).
-- @column title            VARCHAR    Its name in words.
-- @column headline         VARCHAR    What happens, in at most 15 words.
-- @column evidence         VARCHAR[]  Sentences with the numbers that show it.
-- @column remedy           VARCHAR    What to do: a line to paste.
-- @column saving_ns        BIGINT     Estimate of what a step would be shorter without it, ns; NULL if the gain is throughput or not known.
-- @column saving_low_ns    BIGINT     Low end of its interval, ns.
-- @column saving_high_ns   BIGINT     High end, ns.
-- @column saving_pct       DOUBLE     saving_ns in percent of a step without the profiler (with it, if only that is known).
-- @column gain_pct         DOUBLE     Estimate of the gain in throughput, percent; NULL if the saving is time.
-- @column unknowns         VARCHAR    What was not measured, and what would show it; NULL if nothing is missing.
-- @column query            VARCHAR    Query that shows the details.
-- @column parameters       MAP(VARCHAR, VARCHAR)  Parameters of that query, by name.
-- @column phase            VARCHAR    Phase that it shows in most; NULL if it is of no phase.
-- @column rank             BIGINT     Rank of an example: where the trace shows it best; NULL if the finding has no place.
-- @column ts               BIGINT     Start of the example, ns since the run's first event; NULL if it has no place.
-- @column dur              BIGINT     Duration of the example, ns; NULL if it has no place.
SELECT
    ROW_NUMBER() OVER (
        ORDER BY
            array_position(['severe', 'notable', 'remark'], severity),
            diagnosis.subject <> 'recording' OR severity <> 'severe',
            GREATEST(COALESCE(saving_pct, 0), COALESCE(gain_pct, 0) / 2) DESC,
            position
    ) AS rank_order,
    severity, cause, title, headline, evidence, remedy,
    CAST(saving_ns AS BIGINT) AS saving_ns,
    CAST(saving_low_ns AS BIGINT) AS saving_low_ns,
    CAST(saving_high_ns AS BIGINT) AS saving_high_ns,
    saving_pct, gain_pct,
    NULLIF(concat_ws(
        ' ',
        unknowns,
        CASE WHEN lost_records.pct >= 1 THEN format(
            'The records of {:.0f}% of the launches are missing; the numbers are of what was recorded.', lost_records.pct
        ) END
    ), '') AS unknowns,
    query, parameters, phase,
    CASE WHEN ts IS NOT NULL THEN rank END AS rank,
    ts, dur
FROM diagnosis
CROSS JOIN lost_records
WHERE state = 'confirmed'
ORDER BY rank_order
