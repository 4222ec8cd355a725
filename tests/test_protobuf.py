"""Protobuf's wire format, against protobuf's own objects."""

import numpy as np
import pytest

from traceql.engine.perfetto_api import api
from traceql.protobuf.wire import (
    DELIMITED,
    delimited_fields,
    packed_varints,
    tag,
    varint,
    varint_at,
    varints,
)

_INTEGERS = [0, 1, -1, 127, 128, 2**62, -(2**62), 2**63 - 1, -(2**63)] + [
    sign * (2**bit + step) for bit in range(63) for sign in (1, -1) for step in (-1, 0, 1)
]
_UNSIGNED = [value % 2**64 for value in _INTEGERS]


def packed(values: list[int]) -> bytes:
    """A packed repeated int64 field as protobuf writes it, without its tag and length."""
    message = (
        api.ProtoFactory(api.PLATFORM_DELEGATE())
        .QueryResult.CellsBatch(varint_cells=values)
        .SerializeToString()
    )
    return b"".join(bytes(content) for _, content in delimited_fields(memoryview(message)))


@pytest.mark.parametrize("values", [_INTEGERS, [1, 2, 127], [], [-1]])
def test_packed_integers_of_every_length_are_read(values: list[int]) -> None:
    assert packed_varints(packed(values)).tolist() == values


def test_integers_of_every_length_are_written() -> None:
    expected = packed(_INTEGERS)
    octets, used = varints(np.array(_UNSIGNED, np.uint64))
    assert bytes(octets[used]) == expected
    assert b"".join(map(varint, _UNSIGNED)) == expected


def test_integers_are_read_one_by_one() -> None:
    message, at = packed(_INTEGERS), 0
    for value in _UNSIGNED:
        found, at = varint_at(message, at)
        assert found == value
    assert at == len(message)


def test_an_integer_that_is_cut_off_is_refused() -> None:
    with pytest.raises(IndexError):
        varint_at(varint(300)[:1], 0)


def test_fields_of_other_types_are_skipped() -> None:
    fixed = tag(1, 1) + bytes(8) + tag(2, 5) + bytes(4) + tag(3, 0) + varint(300)
    message = memoryview(fixed + tag(200, DELIMITED) + varint(2) + b"ab")
    assert [(number, bytes(content)) for number, content in delimited_fields(message)] == [
        (200, b"ab")
    ]
