"""GPU activities among scanned slices: where each ran, according to its arguments."""

import numpy as np
import pyarrow as pa

from traceql.readers.dialects.pytorch.vocabulary import Argument
from traceql.readers.formats.kineto.scan.scanned import Int64s, ScannedSizes, ScannedSlices
from traceql.readers.tables import ACTIVITY


def number_column(slices: ScannedSlices, argument: Argument, rows: Int64s | slice) -> pa.Array:
    """An argument of some slices; NULL if it is missing."""
    values, present = slices.numbers[argument]
    return pa.array(values[rows], mask=~present[rows])


def scanned_activities(slices: ScannedSlices, rows: Int64s, first: int) -> pa.Table:
    """One row per slice in `rows`, NULL if an argument is missing.

    Args:
        first: the index, in the file, of the first slice.
    """
    columns = [
        pa.array(first + rows),
        number_column(slices, Argument.DEVICE, rows),
        number_column(slices, Argument.STREAM, rows),
        number_column(slices, Argument.BYTES, rows),
        _lists(slices.sizes[Argument.GRID], rows),
        _lists(slices.sizes[Argument.BLOCK], rows),
        number_column(slices, Argument.GRAPH_NODE_ID, rows),
    ]
    return pa.table(columns, schema=ACTIVITY)


def _lists(sizes: ScannedSizes, rows: Int64s) -> pa.Array:
    lengths, values = sizes.lengths[rows], sizes.values[rows]
    counts = np.arange(values.shape[1]) < lengths[:, None]
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(values[counts]), mask=pa.array(~sizes.present[rows])
    )
