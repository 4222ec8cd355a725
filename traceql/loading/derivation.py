"""Derives all tables that are not a file's own, with the SQL of queries/tables/."""

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import TopologicalSorter

import duckdb

from traceql.collectives.arrivals import write_spent
from traceql.collectives.matching import pair_operations
from traceql.device_states import write_device_states
from traceql.host_gaps import write_host_time
from traceql.layers.attribution import attribute_by_sequence
from traceql.loading.rule_tables import write_rule_tables
from traceql.resources import QUERIES

_TABLES = QUERIES / "tables"
_AT_ONCE = 2  # DuckDB shares the processors among the queries of each
_STEPS_BEFORE: Mapping[str, Callable[[duckdb.DuckDBPyConnection], None]] = {
    "43_sequence": attribute_by_sequence,
    "50_device_state": write_device_states,
    "65_collective": pair_operations,
    "66_arrival": write_spent,
    "67_host_gap": write_host_time,
    "68_rules": write_rule_tables,
}
Chain = tuple[str, ...]
# Chains of scripts, which share temporary tables, and the scripts whose tables they read besides.
# Those from which it takes longest to the end come first.
NEEDS: Mapping[Chain, Chain] = {
    ("10_iteration", "20_launch", "30_kernel", "40_step"): (),
    ("43_sequence",): ("30_kernel",),
    ("42_module",): ("30_kernel",),
    ("50_device_state",): ("30_kernel",),
    ("45_layer",): ("42_module", "43_sequence"),
    ("60_gap",): ("50_device_state",),
    ("62_operation", "65_collective"): ("02_run_source", "40_step", "45_layer"),
    ("67_host_gap",): ("60_gap",),
    ("66_arrival",): ("60_gap", "65_collective"),
    ("90_ledger",): ("60_gap", "65_collective"),
    ("69_parallel",): ("50_device_state", "65_collective"),
    ("02_run_source",): (),
    ("80_run",): ("02_run_source", "40_step"),
    ("68_rules",): (),
    ("85_group_link",): ("65_collective", "68_rules", "80_run"),
    ("35_device_name",): ("30_kernel",),
    ("70_memory",): (),
}


def derive(con: duckdb.DuckDBPyConnection) -> None:
    """Makes every table that is not a file's own."""
    chain_of = {script: chain for chain in NEEDS for script in chain}
    order = TopologicalSorter(
        {chain: [chain_of[script] for script in needed] for chain, needed in NEEDS.items()}
    )
    order.prepare()
    urgency = list(NEEDS)
    running: dict[Future[None], Chain] = {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while order.is_active():
            for chain in sorted(order.get_ready(), key=urgency.index):
                running[pool.submit(_run, con.cursor(), chain)] = chain
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                future.result()
                order.done(running.pop(future))


def _run(con: duckdb.DuckDBPyConnection, chain: Chain) -> None:
    for name in chain:
        con.begin()  # a commit for each of its statements would take longer
        if name in _STEPS_BEFORE:
            _STEPS_BEFORE[name](con)
        con.execute((_TABLES / f"{name}.sql").read_text())
        con.commit()
