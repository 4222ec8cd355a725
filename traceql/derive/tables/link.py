# One row per kind of link. Of the rows of a medium, the first whose device matches counts.
# @scope  rank
# @column position   BIGINT   Order.
# @column device     VARCHAR  RE2 regular expression, found anywhere in the GPU's name; of a network in the link layer and rate of its adapters.
# @column medium     VARCHAR  fabric (all such GPUs of a host have it), bridge (those that a bridge joins), pcie, or network (between hosts).
# @column link       VARCHAR  What connects GPUs of that kind.
# @column peak_gbps  DOUBLE   Its peak in one direction, per GPU or network adapter, 1e9 bytes per second.
# @column source     VARCHAR  Where that is written.

"""The links of link.csv, beside this file."""

import csv
from pathlib import Path

import duckdb
import pyarrow as pa

from traceql.table_head import declared_schema

_LINKS = Path(__file__).with_suffix(".csv")


def rows(_con: duckdb.DuckDBPyConnection) -> pa.Table:
    with _LINKS.open(newline="", encoding="utf-8") as file:
        listed = [
            {**row, "position": position, "peak_gbps": float(row["peak_gbps"])}
            for position, row in enumerate(csv.DictReader(file))
        ]
    return pa.Table.from_pylist(listed, declared_schema(__file__))
