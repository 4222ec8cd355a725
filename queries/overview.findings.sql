-- One row per finding: a cause that the diagnosis confirms, severe ones first; none if none is confirmed.
--
-- Start here, or with traceql info, which prints the same. A cause is a claim about the run: its evidence has
-- the numbers, its saving is per step and scaled to the run without the profiler, and no lost nanosecond is
-- saved twice. overview.causes has the causes that are ruled out or undecided, too. docs/diagnosis.md explains
-- how causes are decided.
-- @column rank_order      BIGINT                 Position of the finding, from 1.
-- @column severity        VARCHAR                severe, notable, or remark: it costs nothing that is worth a change.
-- @column cause           VARCHAR                Id of the cause (reference.cause).
-- @column title           VARCHAR                Its name in words.
-- @column headline        VARCHAR                What happens, in at most 15 words.
-- @column evidence        VARCHAR[]              Sentences with the numbers that show it.
-- @column remedy          VARCHAR                What to do: a line to paste.
-- @column saving_ns       BIGINT                 Estimate of what a step would be shorter without it, ns.
-- @column saving_low_ns   BIGINT                 Low end of its interval, ns.
-- @column saving_high_ns  BIGINT                 High end, ns.
-- @column saving_pct      DOUBLE                 saving_ns in percent of a step.
-- @column gain_pct        DOUBLE                 Gain in throughput, percent, where a step does not become shorter.
-- @column unknowns        VARCHAR                What was not measured, and what would show it.
-- @column query           VARCHAR                The query that shows it: traceql run QUERY DB.
-- @column parameters      MAP(VARCHAR, VARCHAR)  Parameters of that query.
-- @column phase           VARCHAR                Phase that it shows in most.
-- @column rank            BIGINT                 Rank of an example, where the trace shows it best.
-- @column ts              BIGINT                 Start of the example, ns since the run's first event.
-- @column dur             BIGINT                 Duration of the example, ns.
-- @key    severity headline remedy saving_ns saving_pct gain_pct query parameters cause
-- @chart  none
-- @empty  no cause is confirmed (overview.causes), or only profiles of Nsight Compute were loaded, without a trace
SELECT
    rank_order, severity, cause, title, headline, evidence, remedy, saving_ns, saving_low_ns, saving_high_ns,
    saving_pct, gain_pct, unknowns, query, parameters, phase, rank, ts, dur
FROM finding
ORDER BY rank_order
