"""GPU activities (kernels, copies, memsets): where each ran, according to its arguments."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.readers.arguments import Arguments, int64_column
from traceql.readers.dialects.pytorch.vocabulary import GPU_CATEGORIES
from traceql.readers.tables import ACTIVITY

Int64s = npt.NDArray[np.int64]
_INT32 = range(-(2**31), 2**31)


def is_on_gpu(cat: Any) -> bool:
    """Whether events of this category are GPU activities."""
    return str(cat).lower() in GPU_CATEGORIES


def activity_table(rows: Int64s, arguments: Sequence[Arguments], first: int = 0) -> pa.Table:
    """One row per event in `rows`, NULL if an argument is missing or not a number.

    Args:
        rows: positions in `arguments`.
        first: the index, in the file, of the event that `arguments` starts with.
    """
    found = [arguments[row] for row in rows.tolist()]
    columns = [
        pa.array(first + rows),
        int64_column([a.device for a in found]),
        int64_column([a.stream for a in found]),
        int64_column([a.bytes for a in found]),
        _int32_lists([a.grid for a in found]),
        _int32_lists([a.block for a in found]),
        int64_column([a.graph_node_id for a in found]),
    ]
    return pa.table(columns, schema=ACTIVITY)


def _int32_lists(values: Sequence[Any]) -> pa.Array:
    type_ = pa.list_(pa.int32())
    try:
        return pa.array(values, type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([v if _holds_int32(v) else None for v in values], type_)


def _holds_int32(value: Any) -> bool:
    return isinstance(value, list) and all(type(v) is int and v in _INT32 for v in value)
