"""The tables of a peaks.json, by name."""

from collections.abc import Callable, Mapping
from typing import Any

from traceql.limits.communication import collectives, fits
from traceql.limits.copies import copies, host_copies
from traceql.limits.on_gpu import matmul, memory
from traceql.loading.peaks_document import PeaksDocument

TABLES: Mapping[str, Callable[[PeaksDocument], list[dict[str, Any]]]] = {
    "matmul": matmul,
    "memory": memory,
    "copies": copies,
    "host": host_copies,
    "collectives": collectives,
    "fit": fits,
}
