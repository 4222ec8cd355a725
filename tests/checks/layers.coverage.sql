-- One row per rank with more than 0.5% of its GPU time in forward passes not attributed.
SELECT rank, value AS unknown_ns, total AS total_ns
FROM ledger
WHERE check_name = 'time without a layer or role' AND NOT ok
