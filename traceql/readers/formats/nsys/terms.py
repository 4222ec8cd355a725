"""Values of rows and conditions for rows, of which the kinds of events are made."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.formats.nsys import computed
from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.term import Term, Values, columns_of
from traceql.readers.sqlite_pages import ROWID

# ---- values ----


def constant(value: int | str | bool | None) -> Term:
    """The same value in each row; texts have no quotes."""
    kind, sql = pa.int64(), str(value)
    if value is None:
        sql = "NULL"
    elif isinstance(value, bool):
        kind, sql = pa.bool_(), sql.upper()
    elif isinstance(value, str):
        kind, sql = computed.TEXT, f"'{value}'"
    return Term(sql, frozenset(), partial(computed.constant, scalar=pa.scalar(value, kind)))


NOTHING, ZERO = constant(None), constant(0)
ALWAYS, NEVER = constant(True), constant(False)


def column(name: str) -> Term:
    return _of_column(name, '"{}"', pc.cast, target_type=pa.int64())


def column_of(export: Export, table: str, name: str) -> Term:
    """A column; NULL if the table does not have it."""
    return column(name) if export.has(table, name) else NOTHING


def or_zero(name: str) -> Term:
    return _of_column(name, 'COALESCE("{}", 0)', pc.fill_null, fill_value=0)


def row_number() -> Term:
    """The number of the row, as a text."""
    return Term(f"CAST({ROWID} AS TEXT)", frozenset({ROWID}), computed.row_number)


def text(name: str) -> Term:
    """A text; NULL where bytes are in its place."""
    return _of_column(name, 'CASE WHEN typeof("{0}") <> \'blob\' THEN "{0}" END', computed.no_text)


def duration(start: str, end: str) -> Term:
    """The time between two, 0 without an end. A text stays one, which is refused; else it was 0."""
    sql = (
        f"CASE WHEN typeof(\"{end}\") IN ('text', 'blob') THEN \"{end}\" "
        f'ELSE COALESCE("{end}", "{start}") - "{start}" END'
    )
    return Term(sql, frozenset({start, end}), partial(computed.duration, start=start, end=end))


def case(value: Term, texts: Mapping[int, str]) -> Term:
    """The text for a number; the number itself where none is known."""
    cases = " ".join(f"WHEN {number} THEN '{text}'" for number, text in texts.items())
    other = f"COALESCE(CAST({value.sql} AS TEXT), '{computed.UNKNOWN}')"
    sql = f"CASE {value.sql} {cases} ELSE {other} END"
    return Term(sql, value.columns, partial(computed.case, value=value, texts=texts))


def joined(*texts: Term) -> Term:
    """Texts one after the other."""
    sql = " || ".join(f"({one.sql})" for one in texts)
    return Term(sql, columns_of(texts), partial(computed.joined, texts=texts))


def chosen(condition: Term, then: int, otherwise: int) -> Term:
    """One of two numbers."""
    sql = f"CASE WHEN {condition.sql} THEN {then} ELSE {otherwise} END"
    of = partial(computed.chosen, condition=condition, numbers=(then, otherwise))
    return Term(sql, condition.columns, of)


def within(value: Term, least: int, most: int) -> Term:
    """A number; NULL where it is out of bounds. What is no number stays, and is refused."""
    fits = f"typeof({value.sql}) <> 'integer' OR {value.sql} BETWEEN {least} AND {most}"
    sql = f"CASE WHEN {fits} THEN {value.sql} END"
    return Term(sql, value.columns, partial(computed.within, value=value, least=least, most=most))


# ---- conditions ----


def is_outside(value: Term, least: int, most: int) -> Term:
    """Whether a number is out of bounds."""
    sql = f"(typeof({value.sql}) = 'integer' AND {value.sql} NOT BETWEEN {least} AND {most})"
    of = partial(computed.is_outside, value=value, least=least, most=most)
    return Term(sql, value.columns, of)


def is_one_of(name: str, numbers: Collection[int]) -> Term:
    values = pa.array(sorted(numbers), pa.int64())
    listed = ", ".join(map(str, sorted(numbers)))
    return _of_column(name, f'"{{}}" IN ({listed})', computed.is_one_of, numbers=values)


def is_above_zero(name: str) -> Term:
    return _of_column(name, '"{}" > 0', computed.is_above_zero)


def is_known(name: str) -> Term:
    return _of_column(name, '"{}" IS NOT NULL', pc.is_valid)


def is_unknown(name: str) -> Term:
    return _of_column(name, '"{}" IS NULL', pc.is_null)


def is_not_before(end: str, start: str) -> Term:
    """Whether an end is not before its start, or the start is no number."""
    sql = f'("{end}" >= "{start}" OR typeof("{start}") <> \'integer\')'
    return Term(sql, frozenset({start, end}), partial(computed.is_not_before, start=start, end=end))


def both(*conditions: Term) -> Term:
    sql = " AND ".join(f"({one.sql})" for one in conditions)
    return Term(sql, columns_of(conditions), partial(computed.reduced, pc.and_kleene, conditions))


def either(*conditions: Term) -> Term:
    """Whether one of these is true; there may be none."""
    each = (NEVER, *conditions)
    sql = " OR ".join(f"({one.sql})" for one in each)
    return Term(sql, columns_of(each), partial(computed.reduced, pc.or_kleene, each))


def _of_column(name: str, sql: str, function: Callable[..., Values], **options: Any) -> Term:
    of = partial(_applied, name=name, function=partial(function, **options))
    return Term(sql.format(name), frozenset({name}), of)


def _applied(rows: pa.Table, name: str, function: Callable[[Values], Values]) -> Values:
    return function(rows[name])
