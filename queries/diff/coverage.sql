-- One row per side: how much of its recorded time the comparison is about.
--
-- @column side           VARCHAR  base or new.
-- @column runs           BIGINT   Number of runs.
-- @column recorded_ns    DOUBLE   Mean recorded time of a run, all devices together, ns.
-- @column compared_pct   DOUBLE   Share of it in steps that are compared, percent.
-- @column unmatched_pct  DOUBLE   Share of it in steps that not every run of both sides has, percent.
-- @column outside_pct    DOUBLE   Share of it outside steps, or in incomplete ones, percent.
-- @key    side runs recorded_ns compared_pct unmatched_pct outside_pct
-- @empty  neither side has time on a GPU; traceql check has the reason
-- @chart  stacked x=compared_pct,unmatched_pct,outside_pct y=side
-- @title  How much of each side is compared
SELECT side, runs, recorded_ns, compared_pct, unmatched_pct, outside_pct
FROM coverage
ORDER BY side
