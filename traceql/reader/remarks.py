"""Remarks: what a reader states about its own work, for the ledger."""

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from traceql.reader.tables import REMARK


class Remark(NamedTuple):
    """One row of the table `REMARK`, which explains the columns."""

    check_name: str
    value: int
    total: int
    ok: bool | None
    note: str


def remark_table(remarks: Iterable[Remark]) -> pa.Table:
    """The remarks as the table that a reader delivers."""
    return pa.Table.from_pylist([remark._asdict() for remark in remarks], REMARK)
