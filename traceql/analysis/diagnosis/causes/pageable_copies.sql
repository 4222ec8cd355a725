-- Inputs are copied to the device from memory that is not pinned, which stops the host, and is slower.
-- @title   copies from pageable memory
-- @group   host
-- @query   kernels.top
-- @record  Record GPU activities; their names say what kind of memory a copy reads.
-- @source  CUDA programming guide: copies from pageable memory go through a staging buffer, and the call waits for that
-- @needs   engine_step, exposed_copy, kernel, wording
WITH pageable AS (
    SELECT
        CAST(SUM(copies) AS BIGINT) AS copies, MAX(steps) AS steps, SUM(ns) AS ns, SUM(pct) AS pct,
        flatten(list(claims)) AS claims,
        arg_max(rank, dur) AS rank, arg_max(ts, dur) AS ts, MAX(dur) AS dur
    FROM exposed_copy
    WHERE regexp_matches(kind, 'HtoD.*Pageable')
),
recorded AS (
    SELECT
        (SELECT COUNT(*) FROM kernel WHERE kind = 'memcpy' AND regexp_matches(name, 'HtoD|HostToDevice')) AS copies,
        (SELECT COUNT(*) FROM kernel WHERE kind = 'memcpy' AND regexp_matches(name, 'HtoD.*(Pageable|Pinned)')) AS known,
        (SELECT COUNT(*) FROM engine_step WHERE NOT is_edge) AS steps
)
SELECT
    CASE
        WHEN recorded.copies > 0 AND recorded.known = 0 AND pageable.copies IS NULL THEN NULL
        WHEN recorded.copies = 0 THEN FALSE
        WHEN recorded.steps = 0 THEN NULL
        ELSE COALESCE(pageable.copies >= 10 AND pageable.pct >= 1, FALSE)
    END AS is_confirmed,
    CASE
        WHEN recorded.copies > 0 AND recorded.known = 0 AND pageable.copies IS NULL
            THEN 'the names of copies do not say whether the memory is pinned'
        WHEN recorded.copies = 0 THEN 'no copy from the host was recorded'
        WHEN recorded.steps = 0 THEN 'no step between the first and the last one was recorded'
        WHEN pageable.copies IS NULL THEN format('no {} waits for a copy from memory that is not pinned', wording.device)
        ELSE format('copies from memory that is not pinned take {:.2f}% of a step alone', pageable.pct)
    END AS reason,
    format('{:,} copies from memory that is not pinned take {{saving}} of each step alone', pageable.copies) AS headline,
    [
        format('They are Memcpy HtoD (Pageable -> Device), in {} steps.', pageable.steps),
        'The host waits in each until its data is in a staging buffer.'
    ] AS evidence,
    'tensor.pin_memory().to(device, non_blocking=True), or DataLoader(..., pin_memory=True)' AS remedy,
    'Which tensors they are; operators with shapes, or stacks, would name them.' AS unknowns,
    pageable.claims, pageable.copies AS samples, pageable.rank, pageable.ts, pageable.dur
FROM pageable
CROSS JOIN recorded
CROSS JOIN wording
