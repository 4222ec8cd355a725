"""The tables of a peaks.json, by name."""

from collections.abc import Callable, Mapping
from typing import Any

from traceql.database.loading.peaks_document import PeaksDocument
from traceql.plan.limits.communication import collectives, fits
from traceql.plan.limits.copies import copies, host_copies
from traceql.plan.limits.on_gpu import matmul, memory

TABLES: Mapping[str, Callable[[PeaksDocument], list[dict[str, Any]]]] = {
    "matmul": matmul,
    "memory": memory,
    "copies": copies,
    "host": host_copies,
    "collectives": collectives,
    "fit": fits,
}
