-- Some checks of the ledger failed.
-- @title      broken ledger
-- @notable    1
-- @severe     1
-- @unit       checks failed
-- @evidence   quality.ledger
-- @advice     Do not trust sums from this database until the reason is known.
-- @source     own: any failed check may make other numbers wrong
-- @needs      ledger
SELECT
    COUNT(*) AS value,
    NULL::BIGINT AS cost_ns,
    CASE COUNT(*) WHEN 1 THEN 'A check' ELSE COUNT(*) || ' checks' END || ' of the ledger failed.' AS finding
FROM ledger
WHERE NOT ok
