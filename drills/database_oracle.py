"""Compares a database with the expected contents of its files."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from drills.seeds import OLD_RANK
from drills.trace_oracle import Complete, Described, Truth, loaded_args

# Checks of the ledger that say how much was recognized; the others say what was lost.
_OF_RECOGNITION = (
    "time classified other", "time without a layer or role", "time in layers without a role",
    "layers attributed", "layers of the model", "model family",
)  # fmt: skip
# Checks of the ledger that count rows, and one that does not.
_OF_ROWS = ("events", "duration", "instants")
_OF_TIMES = "events with impossible times"
# Checks about files that are not valid JSON and were repaired.
_REPAIRS = """
    SELECT check_name
    FROM ledger
    WHERE check_name IN ('texts not escaped', 'end of the file', 'comma behind the last event')
"""
_EVENTS = f"""
    SELECT
        slice.pid, slice.tid, COALESCE(slice.name, '') AS name,
        CAST(slice.ts AS HUGEINT) - trace.file_offset_ns AS ts, slice.dur, slice.args
    FROM slice
    INNER JOIN trace USING (rank)
    WHERE slice.rank <> {OLD_RANK}
"""


def rows(database: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(database), read_only=True) as con:
        con.execute("SET search_path = 'main,internal,reference'")
        return con.execute(sql).fetchall()


def admitted_losses(database: Path) -> list[str]:
    """The checks of the ledger that failed, but those of how much was recognized."""
    failed = rows(database, "SELECT check_name FROM ledger WHERE NOT ok")
    return [name for (name,) in failed if name not in _OF_RECOGNITION]


def disagreement(database: Path, truth: Truth | None) -> str | None:
    """What of a JSON trace is not in a database, or not as it should be; None if all is.

    A failed ledger is no excuse: a JSON trace is read whole, or not at all.
    """
    told = admitted_losses(database)
    if truth is None:
        told += [name for (name,) in rows(database, _REPAIRS)]
        return None if told else "it loaded what is not certainly a trace, under a green ledger"
    if lost := [name for name in told if name.startswith(_OF_ROWS) and name != _OF_TIMES]:
        return f"the ledger says that rows were lost: {', '.join(lost)}"
    events = rows(database, _EVENTS)
    found: Counter[Complete] = Counter(row[:5] for row in events)
    described: Counter[Described] = Counter((row[3], loaded_args(row[5])) for row in events)
    if missing := truth.certain - found:
        return f"{missing.total()} events are missing, such as {next(iter(missing))!r:.300}"
    if not 0 <= 2 * (len(events) - truth.complete) <= truth.borders:
        return f"{len(events)} slices for {truth.complete} complete events"
    if missing_args := truth.described - described:
        return f"arguments are missing, such as {next(iter(missing_args))!r:.300}"
    (instants,) = rows(database, f"SELECT COUNT(*) FROM instant WHERE rank <> {OLD_RANK}")[0]
    if instants != truth.instants:
        return f"{instants} instants of {truth.instants}"
    return None


_BUILT_IN = Path(__file__).parents[1] / "traceql" / "analysis" / "classification" / "kernels.csv"
_CATEGORIES = frozenset(
    {
        *("gemm", "attention", "kv_cache", "norm", "rope", "activation", "moe", "collective"),
        *("elementwise", "sampling", "input_prep", "memcpy", "memset", "graph", "other"),
    }
)
Rules = dict[int, tuple[str, str]]  # pattern and category by priority


class Invalid(Exception):
    """Rules that must be refused."""


def decisions(own: bytes, names: Iterable[str]) -> Mapping[str, tuple[str, int | None]]:
    """The category and the priority of the deciding rule for each name.

    Raises:
        Invalid: the file is not a list of rules.
    """
    rules = sorted((_rules(_BUILT_IN.read_bytes()) | _rules(own)).items())
    matching = {
        name: [(c, priority) for priority, (p, c) in rules if re.search(p, name, re.ASCII)]
        for name in names
    }
    return {name: found[0] if found else ("other", None) for name, found in matching.items()}


def _rules(content: bytes) -> Rules:
    found: Rules = {}
    try:
        text = content.decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""))
        for row in reader:
            if None in row:
                raise Invalid
            priority, pattern, category = row["priority"], row["pattern"], row["category"]
            is_number = re.fullmatch("[0-9]+", priority.strip())
            if not pattern or category not in _CATEGORIES or not is_number:
                raise Invalid
            if int(priority) in found:
                raise Invalid
            re.compile(pattern)
            found[int(priority)] = pattern, category
    except (ValueError, KeyError, TypeError, AttributeError, csv.Error, re.error):
        raise Invalid from None
    return found
