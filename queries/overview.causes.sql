-- One row per cause in the catalogue: confirmed, ruled out (by what), or undecided (what to record).
--
-- traceql info --all prints the same.
-- @param  state     VARCHAR = NULL  confirmed, ruled out or undecided; all where NULL.
-- @column state         VARCHAR  confirmed, ruled out or undecided.
-- @column cause         VARCHAR  Id of the cause (reference.cause).
-- @column reason        VARCHAR  What rules it out, or what to record; the headline of a confirmed cause.
-- @column severity      VARCHAR  Of a confirmed cause: severe, notable or remark.
-- @column title         VARCHAR  Its name in words.
-- @column subject       VARCHAR  recording, host, scheduling, communication, kernels, memory or hardware.
-- @column explained_ns  DOUBLE   What it explains of the time lost per step, ns.
-- @key    state cause reason
-- @chart  none
-- @empty  it has a row for each cause
SELECT
    state, cause,
    COALESCE(reason, headline) AS reason,
    severity, title, subject, explained_ns
FROM diagnosis
WHERE $state IS NULL OR state = $state
ORDER BY
    array_position(['confirmed', 'undecided', 'ruled out'], state),
    array_position(['severe', 'notable', 'remark'], severity) NULLS LAST,
    position
