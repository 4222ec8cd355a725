-- One row per role whose kernels changed: which kernels did its work in base, and which do it in new.
--
-- Use it to see the cause of a change: "A became B + C". Names alone do not compare: libraries choose
-- another kernel for another size, and compilers number their kernels. So kernels are compared by their
-- role. Kernels of Triton whose names differ in a number at the end alone count as renumbered.
-- @param  scope          VARCHAR = NULL   Phase of the steps, or all; the phase that takes most of base's time by default.
-- @param  role           VARCHAR = NULL   Only this role, such as qkv_proj.
-- @param  every          BOOLEAN = FALSE  Also roles whose kernels are the same on both sides, or were only renumbered.
-- @column scope          VARCHAR    Phase of the steps, or all.
-- @column role           VARCHAR    Part of the model; other if unknown.
-- @column what           VARCHAR    other kernels, other counts (the same names, not as often), renumbered, same, only base or only new.
-- @column became         VARCHAR    The kernels that only base has, then those that only new has, or those whose counts differ; names are shortened, 18 x says that a step has 18 of them, and of many the three with most time are named.
-- @column base_kernels   DOUBLE     Kernels in a step of base, mean of the devices.
-- @column new_kernels    DOUBLE     The same of new.
-- @column base_ns        DOUBLE     Their time in the step of base without waiting, ns.
-- @column new_ns         DOUBLE     The same of new, ns.
-- @column delta_ns       DOUBLE     new_ns - base_ns, ns.
-- @column base_names     VARCHAR[]  Names of all kernels of the role in base, those with most time first.
-- @column new_names      VARCHAR[]  The same of new.
-- @key    role what became base_kernels new_kernels base_ns new_ns delta_ns
-- @empty  both sides use the same kernels (--every lists them), or no steps of this scope are compared
-- @chart  none
WITH chosen AS (
    SELECT
        *,
        regexp_replace(name, '^(triton_.*)_\d+$', '\1') AS plain_name,
        -- Without the type that it returns, and without those of its arguments where that is simple.
        regexp_replace(
            regexp_replace(name, '^(void|int|bool|float) +', ''), '^([^<( ]+(?:<[^<>()]*>)?)\(.*$', '\1'
        ) AS untyped
    FROM kernel_use
    WHERE
        scope = COALESCE($scope::VARCHAR, (SELECT scope.scope FROM scope WHERE scope.position = 0))
        AND ($role::VARCHAR IS NULL OR role = $role::VARCHAR)
),
found AS (
    SELECT
        *,
        CASE
            WHEN round(kernels, 1) = 1 THEN ''
            WHEN round(kernels, 1) = round(kernels) AND kernels > 0.5 THEN printf('%.0f x ', kernels)
            WHEN kernels < 0.1 THEN '<0.1 x '
            ELSE printf('%.1f x ', kernels)
        END
        || CASE
            WHEN length(untyped) <= 64 THEN untyped
            ELSE left(untyped, 40) || '…' || right(untyped, 23)
        END AS short
    FROM chosen
),
paired AS (
    SELECT
        COALESCE(base.scope, new.scope) AS scope,
        COALESCE(base.role, new.role) AS role,
        base, new
    FROM (FROM found WHERE side = 'base') AS base
    FULL JOIN (FROM found WHERE side = 'new') AS new
        ON base.scope = new.scope AND base.role = new.role AND base.name = new.name
),
summed AS (
    SELECT
        scope, role,
        list(
            new.short || ' (was ' || printf('%.1f', base.kernels) || ')' ORDER BY new.ns DESC, new.name
        ) FILTER (round(base.kernels, 1) <> round(new.kernels, 1)) AS counted_names,
        list(base.short ORDER BY base.ns DESC, base.name) FILTER (new.name IS NULL) AS lost_names,
        list(new.short ORDER BY new.ns DESC, new.name) FILTER (base.name IS NULL) AS gained_names,
        list_sort(list(DISTINCT base.plain_name) FILTER (base.plain_name IS NOT NULL)) AS base_plains,
        list_sort(list(DISTINCT new.plain_name) FILTER (new.plain_name IS NOT NULL)) AS new_plains,
        BOOL_AND(round(base.kernels, 1) = round(new.kernels, 1)) AS is_as_often,
        COALESCE(SUM(base.kernels ORDER BY base.name), 0) AS base_kernels,
        COALESCE(SUM(new.kernels ORDER BY new.name), 0) AS new_kernels,
        COALESCE(SUM(base.ns ORDER BY base.name), 0) AS base_ns,
        COALESCE(SUM(new.ns ORDER BY new.name), 0) AS new_ns,
        COALESCE(list(base.name ORDER BY base.ns DESC, base.name) FILTER (base.name IS NOT NULL), []) AS base_names,
        COALESCE(list(new.name ORDER BY new.ns DESC, new.name) FILTER (new.name IS NOT NULL), []) AS new_names
    FROM paired
    GROUP BY scope, role
),
worded AS (
    SELECT
        *,
        array_to_string(lost_names[1:3], ' + ')
        || CASE WHEN len(lost_names) > 3 THEN printf(' + %d others', len(lost_names) - 3) ELSE '' END AS lost,
        array_to_string(gained_names[1:3], ' + ')
        || CASE WHEN len(gained_names) > 3 THEN printf(' + %d others', len(gained_names) - 3) ELSE '' END AS gained
    FROM summed
),
judged AS (
    SELECT
        *,
        CASE
            WHEN base_kernels = 0 THEN 'only new'
            WHEN new_kernels = 0 THEN 'only base'
            WHEN lost IS NULL AND gained IS NULL AND is_as_often THEN 'same'
            WHEN lost IS NULL AND gained IS NULL THEN 'other counts'
            WHEN base_plains = new_plains THEN 'renumbered'
            ELSE 'other kernels'
        END AS what
    FROM worded
)
SELECT
    scope, role, what,
    CASE
        WHEN lost IS NOT NULL AND gained IS NOT NULL THEN lost || ' → ' || gained
        WHEN lost IS NOT NULL AND new_kernels > 0 THEN 'as before, but without ' || lost
        WHEN gained IS NOT NULL AND base_kernels > 0 THEN 'as before, and also ' || gained
        WHEN COALESCE(lost, gained) IS NOT NULL THEN COALESCE(lost, gained)
        ELSE COALESCE(array_to_string(counted_names[1:3], ' + '), '')
    END AS became,
    base_kernels, new_kernels, base_ns, new_ns,
    new_ns - base_ns AS delta_ns,
    base_names, new_names
FROM judged
WHERE $every::BOOLEAN OR what NOT IN ('same', 'renumbered')
ORDER BY ABS(new_ns - base_ns) DESC, role
