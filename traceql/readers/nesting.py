"""Parents and depths of slices, and the slices that flows join."""

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Nesting:
    """What was found, by the trace processor or without it.

    Attributes:
        parent: index of the enclosing slice of each slice; NULL at the top.
        depth: number of enclosing slices of each slice.
        slice_out: index of the slice where each flow begins.
        slice_in: index of the slice where it ends.
        engine: which trace processor it was, for the ledger.
    """

    parent: pa.Array
    depth: pa.Array
    slice_out: pa.Array
    slice_in: pa.Array
    engine: str
