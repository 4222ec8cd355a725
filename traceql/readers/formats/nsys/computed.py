"""What the terms of `terms.py` are of rows whose columns are integers: the same as their SQL."""

from collections.abc import Callable, Collection, Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.formats.nsys.term import Term, Values
from traceql.readers.sqlite_pages import ROWID

TEXT = pa.large_string()
UNKNOWN = "unknown"


def constant(rows: pa.Table, scalar: pa.Scalar) -> Values:
    return pa.repeat(scalar, rows.num_rows)


def row_number(rows: pa.Table) -> Values:
    return rows[ROWID].cast(TEXT)


def no_text(values: Values) -> Values:
    if values.null_count < len(values):
        raise pa.ArrowInvalid("a text")
    return pa.nulls(len(values), TEXT)


def duration(rows: pa.Table, start: str, end: str) -> Values:
    return pc.subtract_checked(pc.coalesce(rows[end], rows[start]), rows[start])


def case(rows: pa.Table, value: Term, texts: Mapping[int, str]) -> Values:
    codes = pc.dictionary_encode(value.of(rows), null_encoding="encode")
    codes = codes.combine_chunks() if isinstance(codes, pa.ChunkedArray) else codes
    told = [
        UNKNOWN if number is None else texts.get(number, str(number))
        for number in codes.dictionary.to_pylist()
    ]
    return pa.array(told, TEXT).take(codes.indices)


def joined(rows: pa.Table, texts: Collection[Term]) -> Values:
    return pc.binary_join_element_wise(*(one.of(rows) for one in texts), pa.scalar("", TEXT))


def chosen(rows: pa.Table, condition: Term, numbers: tuple[int, int]) -> Values:
    then, otherwise = (pa.scalar(number, pa.int64()) for number in numbers)
    return pc.if_else(pc.fill_null(condition.of(rows), False), then, otherwise)


def within(rows: pa.Table, value: Term, least: int, most: int) -> Values:
    values = value.of(rows)
    return pc.if_else(is_inside(values, least, most), values, pa.scalar(None, pa.int64()))


def is_outside(rows: pa.Table, value: Term, least: int, most: int) -> Values:
    return pc.fill_null(pc.invert(is_inside(value.of(rows), least, most)), False)


def is_inside(values: Values, least: int, most: int) -> Values:
    return pc.and_(pc.greater_equal(values, least), pc.less_equal(values, most))


def is_one_of(values: Values, numbers: pa.Array) -> Values:
    found = pc.is_in(values, numbers)
    return pc.if_else(pc.is_valid(values), found, pa.scalar(None, pa.bool_()))


def is_above_zero(values: Values) -> Values:
    return pc.greater(values, 0)


def is_not_before(rows: pa.Table, start: str, end: str) -> Values:
    return pc.or_kleene(pc.greater_equal(rows[end], rows[start]), pc.is_null(rows[start]))


def reduced(
    function: Callable[[Values, Values], Values], conditions: Collection[Term], rows: pa.Table
) -> Values:
    return reduce(function, (one.of(rows) for one in conditions))
