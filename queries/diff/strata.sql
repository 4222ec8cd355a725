-- One row per stratum: steps that compare because they are alike, how many each side has, and whether they are compared.
--
-- Use it to see what the answer is about. A stratum is the steps of one phase, one number of rows and,
-- where every run recorded them, one range of lengths of the KV cache. Only strata that every run of both
-- sides has are compared, with the numbers of steps that base has. The query coverage sums them up.
-- @column stratum           VARCHAR  Steps of one phase, number of rows and, where known, length of the KV cache.
-- @column phase             VARCHAR  Phase of its steps.
-- @column is_compared       BOOLEAN  Whether all runs of both sides have it.
-- @column base_steps        BIGINT   Steps in a run of base: the median; NULL if it has none.
-- @column new_steps         BIGINT   The same of new.
-- @column base_tokens       DOUBLE   Mean number of tokens of a step of base; NULL if unknown.
-- @column new_tokens        DOUBLE   The same of new.
-- @column base_graphs       VARCHAR  How steps of base use CUDA graphs: full, piecewise or none.
-- @column new_graphs        VARCHAR  The same of new.
-- @column base_total_ns     DOUBLE   Time of all steps of a run of base, on one device, ns.
-- @column new_total_ns      DOUBLE   The same of new, ns.
-- @column base_share_pct    DOUBLE   base_total_ns in percent of all steps of base.
-- @column new_share_pct     DOUBLE   new_total_ns in percent of all steps of new.
-- @column base_runs         BIGINT   Runs of base that have it.
-- @column new_runs          BIGINT   Runs of new that have it.
-- @key    stratum is_compared base_steps new_steps base_tokens new_tokens base_total_ns new_total_ns
-- @empty  neither side has steps with kernels; traceql check has the reason
-- @chart  none
SELECT
    stratum, phase, is_compared, base_steps, new_steps, base_tokens, new_tokens, base_graphs,
    new_graphs, base_total_ns, new_total_ns,
    100.0 * base_total_ns / SUM(base_total_ns) OVER () AS base_share_pct,
    100.0 * new_total_ns / SUM(new_total_ns) OVER () AS new_share_pct,
    base_runs, new_runs
FROM stratum
ORDER BY is_compared DESC, COALESCE(base_total_ns, new_total_ns) DESC, stratum
