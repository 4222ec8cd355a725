-- One row per rank whose gaps do not add up to its idle time.
SELECT rank, value AS gaps_ns, total AS idle_ns FROM ledger WHERE check_name = 'idle in gaps' AND NOT ok
