-- One row per fact of the set-up that differs between the sides, those that forbid a verdict first.
--
-- Use it before the numbers: another model, GPU or parallelism does other work, and a throttled clock
-- explains much. A fact that only one side recorded is listed if the other side recorded facts of its kind.
-- @column title   VARCHAR  Kind of fact.
-- @column name    VARCHAR  Name of the fact, by which it can be accepted (accept=).
-- @column effect  VARCHAR  forbids (speeds cannot be compared), warns (it may explain a difference), notes (it may be the intended change) or follows (the engine decided it by itself).
-- @column base    VARCHAR  The value in base; the values of its runs if they differ; NULL if no run recorded it.
-- @column new     VARCHAR  The same of new.
-- @column reason  VARCHAR  Why it matters; empty if it is only noted.
-- @key    title name effect base new reason
-- @empty  both sides have the same set-up, as far as it was recorded
-- @chart  none
SELECT
    title, name, effect,
    NULLIF(array_to_string(base, ', '), '') AS base,
    NULLIF(array_to_string(new, ', '), '') AS new,
    reason
FROM setup
ORDER BY list_position(['forbids', 'warns', 'notes', 'follows'], effect), title, name
