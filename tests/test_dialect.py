"""The profiler's words in SQL are those of the vocabulary."""

import re
from pathlib import Path

from traceql.readers.dialects.ascend import vocabulary as ascend
from traceql.readers.dialects.nsys import vocabulary as nsys
from traceql.readers.dialects.pytorch.vocabulary import Argument, EventName

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


def test_sql_names_neither_categories_nor_metadata() -> None:
    assert words(_CATEGORY) | words(_METADATA) == set()


def test_names_with_a_meaning_are_in_sql() -> None:
    texts = [script.read_text() for script in SCRIPTS]
    assert [name for name in EventName if not any(name in text for text in texts)] == []


def test_argument_keys_in_sql_are_in_the_vocabulary() -> None:
    used = words(_ARGUMENT)
    assert "Collective name" in used
    assert used <= {word.value for word in (*Argument, *nsys.Argument, *ascend.Argument)}
