-- One row per kernel: whether it begins a call of its role, and how long it waited for another rank.
--
-- A call is what one part of the model does at a time: the kernels of a role that follow one another on a
-- stream within a layer of a forward pass. So a split-K product with its reduction is one call of its
-- role.
-- @scope  run
-- @needs  collective, kernel
-- @column kernel_id    BIGINT   Kernel (kernel.id).
-- @column begins_call  BOOLEAN  Whether it is the first kernel of a call. Without a role, every kernel is.
-- @column wait_ns      BIGINT   Part of its duration in which it waited for another rank, ns: 0 unless it is a collective; NULL if it is one that was not matched on all its ranks.
WITH placed AS (
    -- One number of a place is compared faster than its four columns.
    SELECT id, category, role, rank, device, stream, ts, hash(role, step_id, pass, layer) AS place FROM kernel
),
followed AS (
    SELECT
        id, category,
        role IS NULL OR COALESCE(place <> LAG(place) OVER in_order, TRUE) AS begins_call
    FROM placed
    WINDOW in_order AS (PARTITION BY rank, device, stream ORDER BY ts, id)
)
SELECT
    followed.id AS kernel_id,
    followed.begins_call,
    CASE WHEN followed.category = 'collective' THEN collective.wait_ns ELSE 0 END AS wait_ns
FROM followed
LEFT JOIN collective ON followed.id = collective.kernel_id
ORDER BY followed.id
