"""The profiler's words in SQL are those of the vocabulary."""

import re
from pathlib import Path

import pytest

from traceql.readers.dialects.ascend import vocabulary as ascend
from traceql.readers.dialects.nsys import vocabulary as nsys
from traceql.readers.dialects.pytorch.vocabulary import (
    GPU_CATEGORIES,
    Argument,
    EventName,
)

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = [
    *ROOT.glob("queries/**/*.sql"),
    # Those of a reader make categories from its profiler's tables.
    *(path for path in ROOT.glob("traceql/**/*.sql") if "formats" not in path.parts),
    *ROOT.glob("traceql/sql/tables/*.py"),
]
_CATEGORY = re.compile(
    r"\bcat\)?\s*(?:=|<>|IS (?:NOT )?DISTINCT FROM|(?:NOT )?IN)\s*(\([^)]*\)|'[^']*')"
)
_ARGUMENT = re.compile(r"""\$\."([^"]+)"|LIKE '%"([^"]+)"%'""")
_METADATA = re.compile(r"metadata, '\$\.(\w+)")


def words(pattern: re.Pattern[str]) -> set[str]:
    texts = [script.read_text() for script in SCRIPTS]
    return {"".join(found.groups("")) for text in texts for found in pattern.finditer(text)}


def test_sql_asks_what_events_are_and_not_for_categories() -> None:
    assert words(_CATEGORY) == set()


def test_argument_keys_in_sql_are_in_the_vocabulary() -> None:
    used = words(_ARGUMENT)
    assert "Collective name" in used
    assert used <= {word.value for word in (*Argument, *nsys.Argument, *ascend.Argument)}


def test_sql_reads_no_metadata() -> None:
    assert words(_METADATA) == set()


@pytest.mark.parametrize("name", EventName)
def test_names_with_a_meaning_are_in_sql(name: EventName) -> None:
    assert any(name in script.read_text() for script in SCRIPTS)


def test_gpu_categories() -> None:
    assert {"kernel", "gpu_memcpy", "gpu_memset"} == GPU_CATEGORIES
