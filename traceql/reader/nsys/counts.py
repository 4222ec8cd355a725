"""How many events of a rank are in an export, counted by SQLite alone."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from traceql.reader.nsys.export import Export
from traceql.reader.nsys.gpu_metrics import GpuMetrics
from traceql.reader.nsys.points import points
from traceql.reader.nsys.processes import RankPart
from traceql.reader.nsys.sources import counted, sources
from traceql.reader.tables import COUNT


def counts(export: Export, part: RankPart, metrics: GpuMetrics, *, alone: bool) -> pa.Table:
    """The table `count` of the contract."""
    slices: dict[str, tuple[int, int]] = {}
    for source in sources(export):
        n, dur = counted(export, source, part, alone=alone)
        before = slices.get(source.category.value, (0, 0))
        slices[source.category.value] = before[0] + n, before[1] + dur
    rows: list[Mapping[str, Any]] = [
        {"phase": "slice", "cat": cat, "events": n, "dur": dur} for cat, (n, dur) in slices.items()
    ]
    for kind in points(export):
        n = export.value(kind.count_sql(part, alone=alone))
        rows.append({"phase": "i", "cat": "", "events": n, "dur": 0})
    if n := metrics.count(part):
        rows.append({"phase": "counter", "cat": "", "events": n, "dur": 0})
    return pa.Table.from_pylist(rows, COUNT)
