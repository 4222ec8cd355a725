"""The values of Arrow columns for Python and JSON; texts in the room that there is."""

import re
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

from traceql.errors import QueryInvalid

if TYPE_CHECKING:
    import pyarrow as pa


_BYTE = re.compile(rb"[^ -\[\]-~]")


def distinct_names(names: Sequence[str]) -> list[str]:
    """A repeated name gets the first number with which no other column has it."""
    taken = set(names)
    seen: set[str] = set()
    distinct = []
    for name in names:
        if name in seen:
            name = next(free for n in count(1) if (free := f"{name}_{n}") not in taken)
            taken.add(name)
        seen.add(name)
        distinct.append(name)
    return distinct


def wide_columns(schema: "pa.Schema") -> list[str]:
    """The columns of 128 bits."""
    import pyarrow as pa

    return [field.name for field in schema if field.type == pa.decimal128(38, 0)]


def fits_int64(column: "pa.ChunkedArray | pa.Array") -> bool:
    """Whether 64 bits hold every value of a column of 128 bits."""
    import pyarrow as pa

    try:
        column.cast(pa.int64())
    except pa.ArrowInvalid:
        return False
    return True


def with_int64(schema: "pa.Schema", narrow: Collection[str]) -> "pa.Schema":
    """The schema with these columns as int64."""
    import pyarrow as pa

    return pa.schema(
        field.with_type(pa.int64()) if field.name in narrow else field for field in schema
    )


def python_values(column: "pa.ChunkedArray | pa.Array", name: str) -> list[Any]:
    """The values of a column.

    Raises:
        QueryInvalid: a date or a time that Python does not have, such as one before the year 1.
    """
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError) as error:
        raise beyond_python(name) from error
    if not has_map(column.type):
        return values
    return [_with_dicts(value, column.type) for value in values]


def python_rows(rows: "pa.Table | pa.RecordBatch") -> list[dict[str, Any]]:
    """One dict per row."""
    names = rows.schema.names
    columns = [python_values(*column) for column in zip(rows.columns, names, strict=True)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def beyond_python(column: str) -> QueryInvalid:
    return QueryInvalid(
        f'column "{column}" has a value outside the years 1 to 9999, which Python does not have; '
        f'select CAST("{column}" AS VARCHAR)'
    )


def has_map(kind: "pa.DataType") -> bool:
    """Whether a type is a map or has one inside."""
    import pyarrow as pa

    if pa.types.is_map(kind):
        return True
    inner = range(kind.num_fields) if pa.types.is_nested(kind) else ()
    return any(has_map(kind.field(number).type) for number in inner)


def _with_dicts(value: Any, kind: "pa.DataType") -> Any:
    import pyarrow as pa

    if value is None or not has_map(kind):
        return value
    if pa.types.is_struct(kind):
        return {field.name: _with_dicts(value[field.name], field.type) for field in kind}
    if not pa.types.is_map(kind):
        return [_with_dicts(each, kind.value_type) for each in value]
    pairs = [(key, _with_dicts(item, kind.item_type)) for key, item in value]
    if pa.types.is_nested(kind.key_type):
        return pairs  # a dict cannot have such keys
    return dict(pairs)


def plain(value: Any) -> Any:
    r"""A value as JSON has it; bytes as DuckDB writes them, `\x00abc`."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, float) and value - value != 0:
        return None
    if isinstance(value, bytes):
        return _BYTE.sub(lambda found: b"\\x%02X" % ord(found[0]), value).decode("ascii")
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {_key(key): plain(each) for key, each in value.items()}
    return value


def _key(key: Any) -> Any:
    return key if isinstance(key, str | int | float | None) else str(plain(key))


_WORD = re.compile(r"""["'(]*([a-z][a-z'-]*|[\d.,:]+%?)["').,;:!?]*""")
_UNBROKEN = re.compile(r"\S*\d (?:ns|µs|ms|s|[KMG]iB|[KMG]B/s)(?!\w)\S*|\S+")  # with its unit
_TYPES = frozenset({"bool", "char", "const", "float", "int", "long", "unsigned", "void"})
_JOINTS = "_/.:"  # after which a long word is broken rather than elsewhere
_FEWEST_WORDS = 4
_BECAME = " \u2192 "
_ENDING = "…"


def is_sentence(text: str) -> bool:
    """Whether a text is prose: four words or more, most of them plain words or numbers.

    What became what is prose too, whatever its names are.
    """
    if _BECAME in text:
        return True
    words = text.split()
    plain = [word for word in words if _WORD.fullmatch(word) and word.strip(",)") not in _TYPES]
    return len(words) >= _FEWEST_WORDS and 2 * len(plain) >= len(words)


def places(text: str) -> int:
    """The places of a terminal that a text takes: a letter of East Asia takes two."""
    from rich.cells import cell_len

    return cell_len(text)


def wrapped(text: str, room: int, *, hanging: str = "") -> list[str]:
    """The lines of a text, none of which takes more places; a word that does is broken."""
    lines = [""]
    for word in _UNBROKEN.findall(text):
        for part in _parts(word, room - places(hanging)):
            joined = f"{lines[-1]} {part}" if lines[-1].strip() else f"{lines[-1]}{part}"
            if places(joined) <= room:
                lines[-1] = joined
            else:
                lines.append(f"{hanging}{part}")
    return lines


def without_middle(text: str, room: int) -> str:
    """A text that takes at most this many characters, with an ellipsis for its middle."""
    if places(text) <= room:
        return text
    left = room - places(_ENDING)
    end = _beginning(text[::-1], left // 2)[::-1]
    return f"{_beginning(text, left - places(end))}{_ENDING}{end}"


def _parts(word: str, room: int) -> Iterator[str]:
    while places(word) > room:
        part = _beginning(word, room) or word[0]
        joint = max(map(part.rfind, _JOINTS)) + 1
        part = part[:joint] if 2 * joint > len(part) else part
        yield part
        word = word[len(part) :]
    if word:
        yield word


def _beginning(text: str, room: int) -> str:
    """As many of the first letters as fit."""
    if len(text) == places(text):
        return text[:room]
    used = 0
    for number, letter in enumerate(text):
        used += places(letter)
        if used > room:
            return text[:number]
    return text
