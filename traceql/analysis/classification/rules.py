"""Reads and checks classification rules: the built-in ones and those of the user."""

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from io import StringIO
from pathlib import Path

import duckdb
import pyarrow as pa

from traceql.errors import RulesInvalid
from traceql.util.files import Unusable, read_text

BUILT_IN = Path(__file__).with_name("kernels.csv")
CATEGORIES = frozenset(
    {
        *("gemm", "attention", "kv_cache", "norm", "rope", "activation", "moe", "collective"),
        *("elementwise", "sampling", "input_prep", "memcpy", "memset", "graph", "other"),
    }
)
_PRIORITY = re.compile("[0-9]{1,18}")  # fits into 64 bits
_REQUIRED = ("priority", "pattern", "category")


@dataclass(frozen=True)
class Rule:
    """One rule. Of all rules whose pattern matches a name, that with the lowest number decides.

    Attributes:
        pattern: an RE2 regular expression, which may match anywhere in the kernel's name.
        example: a kernel name that this rule decides.
        note: an explanation of the rule.
    """

    priority: int
    pattern: str
    category: str
    example: str = ""
    note: str = ""


def write_rules(con: duckdb.DuckDBPyConnection, own: Sequence[Path]) -> None:
    """Fills `kernel_rule` with the built-in rules and those of the user.

    A rule of the user replaces a built-in rule with the same priority.

    Raises:
        RulesInvalid: a file cannot be read, or a rule has an invalid pattern or category.
    """
    by_priority = {rule.priority: rule for rule in _built_in_rules()}
    of_user = _own_rules(own)
    _require_patterns(con, list(of_user.values()))  # tests have done so for the built-in ones
    rules = list((by_priority | of_user).values())
    con.execute("DELETE FROM kernel_rule")
    con.register("incoming", pa.Table.from_pylist([asdict(rule) for rule in rules]))
    con.execute("INSERT INTO kernel_rule BY NAME FROM incoming")
    con.unregister("incoming")


@cache
def _built_in_rules() -> Sequence[Rule]:
    return tuple(read_rules(BUILT_IN))


def _own_rules(files: Sequence[Path]) -> dict[int, Rule]:
    found: dict[int, Rule] = {}
    for path in files:
        for rule in read_rules(path):
            if rule.priority in found:
                both = f"'{found[rule.priority].pattern}' and '{rule.pattern}'"
                raise RulesInvalid(f"{path}: {both} have the same priority, {rule.priority}")
            found[rule.priority] = rule
    return found


def _require_patterns(con: duckdb.DuckDBPyConnection, rules: Sequence[Rule]) -> None:
    """Checks all patterns at once; only if that fails, one by one, to find the invalid one."""
    tests = "".join([", regexp_matches('', ?)"] * len(rules))
    try:
        con.execute(f"SELECT 1{tests}", [rule.pattern for rule in rules]).fetchall()
    except duckdb.Error as error:
        if len(rules) == 1:
            pattern, reason = _short(rules[0].pattern), _short(str(error).splitlines()[0])
            raise RulesInvalid(f"invalid rule pattern '{pattern}': {reason}") from None
        for rule in rules:
            _require_patterns(con, [rule])


def read_rules(path: Path) -> Iterator[Rule]:
    """The rules of a CSV file with the columns priority, pattern, category, example, note."""
    try:
        reader = csv.DictReader(StringIO(read_text(path), newline=""), strict=True)
        header, rows = reader.fieldnames or (), list(reader)
    except (Unusable, csv.Error) as error:
        raise RulesInvalid(f"cannot read the rules in {path}: {error}") from None
    if not set(header) >= set(_REQUIRED):
        columns = ",".join(_REQUIRED)
        raise RulesInvalid(f"{path}: the first line must name the columns {columns}")
    if len(set(header)) < len(header):
        raise RulesInvalid(f"{path}: the first line names a column twice")
    for line, row in enumerate(rows, start=2):
        if None in row:
            raise RulesInvalid(f"{path}, rule {line - 1}: more cells than columns; quote commas")
        yield _rule(f"{path}, rule {line - 1}", row)


def _rule(place: str, row: dict[str, str | None]) -> Rule:
    priority, pattern = row["priority"] or "", row["pattern"]
    if not pattern:
        raise RulesInvalid(f"{place}: the rule has no pattern")
    if row["category"] not in CATEGORIES:
        raise RulesInvalid(
            f"{place}: unknown category '{_short(row['category'] or '')}'; use one of "
            f"{', '.join(sorted(CATEGORIES))}"
        )
    if not _PRIORITY.fullmatch(priority.strip()):
        raise RulesInvalid(
            f"{place}: priority '{_short(priority)}' is not a whole number of up to 18 digits"
        )
    example, note = row.get("example") or "", row.get("note") or ""
    return Rule(int(priority), pattern, row["category"], example, note)


def _short(given: str) -> str:
    return given if len(given) <= 100 else f"{given[:100]}..."
