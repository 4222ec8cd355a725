"""Remarks: what a reader states about its own work, for the ledger."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from traceql.readers.tables import REMARK


class Remark(NamedTuple):
    """One row of the table `REMARK`, which explains the columns."""

    check_name: str
    value: int
    total: int
    ok: bool | None
    note: str


def left_out(check_name: str, rows: int, total: int, odd: str) -> Iterator[Remark]:
    """Rows without times that can be, such as those that end before they begin; else nothing.

    Args:
        odd: which rows they are.
    """
    if rows:
        yield Remark(check_name, rows, total, False, f"{odd}, which are left out; all of this kind")


def remark_table(remarks: Iterable[Remark]) -> pa.Table:
    """The remarks as the table that a reader delivers."""
    return pa.Table.from_pylist([remark._asdict() for remark in remarks], REMARK)
