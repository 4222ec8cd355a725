"""JSON objects made of columns of integers, column by column in Arrow."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

_TEXT = pa.large_string()


def json_objects(columns: Mapping[str, pa.ChunkedArray], rows: int) -> pa.ChunkedArray:
    """One object for each row, without the keys whose value is NULL; NULL if none is left.

    Args:
        columns: integers by key; keys need no escapes.
    """
    told = {key: column for key, column in columns.items() if column.null_count < rows}
    if not told:
        return pa.chunked_array([pa.nulls(rows, _TEXT)])
    members = [_members(key, column.combine_chunks()) for key, column in told.items()]
    joined = pc.utf8_ltrim(
        pc.binary_join_element_wise(*members, pa.scalar("", _TEXT)), characters=","
    )
    brace = [pa.scalar(text, _TEXT) for text in ("{", "}", "")]
    objects = pc.binary_join_element_wise(brace[0], joined, brace[1], brace[2])
    is_empty = pc.equal(joined, "")
    if pc.any(is_empty).as_py():
        objects = pc.if_else(is_empty, pa.scalar(None, _TEXT), objects)
    return pa.chunked_array([objects])


def _members(key: str, column: pa.Array) -> pa.Array:
    """`,"key":value` of each row; empty where the value is NULL."""
    begin, end = (pa.scalar(text, _TEXT) for text in (f',"{key}":', ""))
    codes = column.dictionary_encode()  # most arguments have few values
    texts = pc.binary_join_element_wise(begin, codes.dictionary.cast(_TEXT), end)
    members = texts.take(codes.indices)
    return members.fill_null("") if column.null_count else members
