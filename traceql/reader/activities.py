"""Where GPU activities ran, from their arguments."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from traceql.reader.arguments import Arguments, int64_column
from traceql.reader.tables import ACTIVITY

_CATS = {"kernel", "gpu_memcpy", "gpu_memset"}
_INT32 = range(-(2**31), 2**31)


def activity_table(cats: pa.DictionaryArray, arguments: Sequence[Arguments]) -> pa.Table:
    """A row for each event of a GPU category; NULL where an argument is absent or no number."""
    is_gpu = [str(cat).lower() in _CATS for cat in cats.dictionary.to_pylist()]
    codes = cats.indices.fill_null(-1).to_numpy()
    rows = np.flatnonzero(np.isin(codes, np.flatnonzero(is_gpu)))
    found = [arguments[row] for row in rows.tolist()]
    columns = [
        pa.array(rows),
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
