-- The statements that both forms make about the tasks of the device, for the ledger.
INSERT INTO statement
SELECT
    'tasks of the device',
    counted,
    tasks,
    NULL,
    IF(
        getvariable('is_text'),
        'compute tasks and copies, which are in table kernel; all tasks of Ascend Hardware. The rest are waits, records and parts of '
        || 'communication, whose operations count as a whole',
        'compute tasks and copies, which are in table kernel; all rows of table TASK. The rest are waits, records, parts of communication, '
        || 'whose operations count as a whole, and rows that enclose others'
    )
FROM task_total
UNION ALL
SELECT
    'sizes of copies',
    odd_sizes,
    copies,
    FALSE,
    'copies whose number of bytes is negative, or too large for one, and counts as unknown; all copies'
FROM task_total
WHERE odd_sizes > 0
UNION ALL
SELECT
    'waits of the profiler',
    waits,
    tasks,
    NULL,
    'tasks by which the profiler made the device wait, to read memory or a graph; all tasks. Gaps behind them are its own'
FROM task_total
WHERE waits > 0
UNION ALL
SELECT
    'tasks of captured graphs',
    captured,
    counted,
    NULL,
    'compute tasks' || IF(getvariable('is_text'), ' and copies', '')
    || ' of captured graphs, which have no launch call of their own; all compute tasks and copies'
FROM task_total
WHERE captured > 0
UNION ALL
SELECT
    'calls of CANN',
    0,
    0,
    NULL,
    'the profile has no calls of CANN' || IF(getvariable('is_text'), ' (profiler level 0)', '')
    || ', so that launches are unknown; record with profiler_level=Level1'
FROM task_total
WHERE kernels > 0 AND calls = 0
UNION ALL
SELECT
    'parts of communication', owned, parts, owned = parts, 'tasks on planes that belong to an operation; all tasks on planes'
FROM task_total
WHERE parts > 0;

-- Tasks whose type says neither that they compute nor that they do not.
INSERT INTO statement
SELECT
    'tasks of unknown type',
    CAST(SUM(tasks) AS BIGINT),
    (SELECT tasks FROM task_total),
    FALSE,
    'tasks of types that are not known ('
    || string_agg('''' || COALESCE(NULLIF(type, ''), 'none') || ''' ' || format('{:,}', tasks), ', ' ORDER BY type)
    || '), which are loaded, but do not count as kernels; all tasks'
FROM task_type
WHERE NOT is_compute_task(type) AND NOT is_other_task(type)
HAVING COUNT(*) > 0;
