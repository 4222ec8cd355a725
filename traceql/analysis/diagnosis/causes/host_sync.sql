-- The launching thread waits for its device in the middle of a step, which then has nothing to do until the next launch.
-- @title   waits of the host within steps
-- @group   host
-- @after   launch_blocking_env
-- @query   idle.host
-- @record  Record CPU activities too; with stacks, they name the line of code.
-- @source  PyTorch's documentation of asynchronous execution: what copies to the host, as item() does, waits
-- @needs   launch, lost_pct, stall_claim, time_scale, wording
WITH wait AS (
    SELECT
        stall_claim.*,
        lost_pct(stall_claim.ns, time_scale) AS pct,
        stall_claim.ns / 1e6 / (time_scale.devices * time_scale.steps) AS ms
    FROM time_scale
    LEFT JOIN stall_claim ON stall_claim.kind = 'sync'
),
at_end AS (
    SELECT COUNT(*) > 0 AS is_there FROM stall_claim WHERE kind = 'end'
),
recorded AS (
    SELECT COUNT(*) AS launches FROM launch
)
SELECT
    CASE
        WHEN recorded.launches = 0 THEN NULL
        ELSE COALESCE(wait.calls >= 10 AND wait.pct >= 1, FALSE)
    END AS is_confirmed,
    CASE
        WHEN recorded.launches = 0 THEN 'launch calls were not recorded'
        WHEN wait.calls IS NULL AND at_end.is_there THEN 'hosts wait only between steps, as without asynchronous scheduling'
        WHEN wait.calls IS NULL THEN 'no launching thread waits for its device within a step'
        WHEN wait.calls < 10 THEN format('fewer than 10 waits within steps prove nothing: {}', wait.calls)
        WHEN wait.pct < 1 THEN 'waits of launching threads within steps cost less than 1%'
    END AS reason,
    format(
        'The host waits for its {} within steps, {:.0f} times in each', wording.device, wait.calls / GREATEST(1, wait.steps * wait.ranks)
    ) AS headline,
    [
        format('Most of it is in {}.', wait.name),
        format('After such waits a {} has nothing to do for {:.2f} ms of each step, as recorded.', wording.device, wait.ms),
        format('{} such waits in {} steps of {} ranks.', wait.calls, wait.steps, wait.ranks)
    ] AS evidence,
    format('Keep the value on the {} (no .item(), .tolist() or .cpu() within the step), or copy it into pinned memory with non_blocking=True', wording.device)
        AS remedy,
    'Which line of code waits, unless stacks were recorded. A host that does not run ahead leaves some of the idle time.' AS unknowns,
    wait.claims, wait.calls AS samples, wait.rank, wait.ts, wait.dur
FROM wait
CROSS JOIN at_end
CROSS JOIN recorded
CROSS JOIN wording
