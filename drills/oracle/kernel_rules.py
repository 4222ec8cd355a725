"""Which rule decides a kernel name, found out with Python's csv and re."""

import csv
import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_BUILT_IN = Path(__file__).parents[2] / "traceql" / "analysis" / "classification" / "kernels.csv"
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
    return {name: _decision(rules, name) for name in names}


def _decision(rules: Iterable[tuple[int, tuple[str, str]]], name: str) -> tuple[str, int | None]:
    for priority, (pattern, category) in rules:
        if re.search(pattern, name, re.ASCII):
            return category, priority
    return "other", None


def _rules(content: bytes) -> Rules:
    found: Rules = {}
    try:
        text = content.decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text, newline=""))
        for row in reader:
            if None in row:
                raise Invalid
            priority, pattern, category = row["priority"], row["pattern"], row["category"]
            if (
                not pattern
                or category not in _CATEGORIES
                or not re.fullmatch("[0-9]+", priority.strip())
            ):
                raise Invalid
            if int(priority) in found:
                raise Invalid
            re.compile(pattern)
            found[int(priority)] = pattern, category
    except (ValueError, KeyError, TypeError, AttributeError, csv.Error, re.error):
        raise Invalid from None
    return found
