-- One row per check of the ledger that failed.
SELECT rank, check_name, value, total, note FROM ledger WHERE NOT ok ORDER BY ALL
