-- One row per rank of whose GPU time in forward passes more than 0.5% has no layer and no role.
SELECT rank, value AS unknown_ns, total AS total_ns
FROM ledger
WHERE check_name = 'time without a layer or role' AND NOT ok
