"""Events as the scanner found them: columns instead of an object for each event."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from traceql.readers.dialects.pytorch.vocabulary import Argument

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Coded:
    """A column of texts and other values, as positions in a list that grows with the file."""

    codes: Int64s
    values: Sequence[Any]


@dataclass(frozen=True)
class ScannedSizes:
    """An argument that is a list of at most three numbers: a grid or a block.

    Attributes:
        values: an array of events and three numbers each.
        lengths: how many of them count.
        present: whether the event has the argument.
    """

    values: npt.NDArray[np.int32]
    lengths: Int64s
    present: Bools


@dataclass(frozen=True)
class ScannedSlices:
    """Complete events.

    Attributes:
        ts: start in the file's own time, ns.
        dur: ns; 0 if the file has none.
        dur_texts: the durations as they are in the file, with a comma after each.
        args: the arguments of all events, as JSON objects laid end to end.
        args_sizes: the bytes of `args` that belong to each event; 0 if it has no arguments.
        numbers: arguments that are whole numbers, and of which events they are.
        sizes: arguments that are lists.
    """

    name: Coded
    cat: Coded
    track: Coded
    ts: Int64s
    dur: Int64s
    dur_texts: bytes
    args: bytes
    args_sizes: Int64s
    numbers: Mapping[Argument, tuple[Int64s, Bools]]
    sizes: Mapping[Argument, ScannedSizes]

    def __len__(self) -> int:
        return len(self.ts)


@dataclass(frozen=True)
class ScannedEnds:
    """Ends of flows.

    Attributes:
        ts: in the file's own time, ns.
        id: the id of each flow as it is in the file.
    """

    phase: Coded
    name: Coded
    cat: Coded
    binding: Coded
    place: Coded
    ts: Int64s
    id: Sequence[bytes]

    def __len__(self) -> int:
        return len(self.ts)

    def phases(self) -> Counter[str]:
        """How many ends there are of each phase."""
        codes, counts = np.unique(self.phase.codes, return_counts=True)
        letters = (self.phase.values[code] for code in codes.tolist())
        return Counter(dict(zip(letters, counts.tolist(), strict=True)))


@dataclass(frozen=True)
class Scanned:
    """The events of a piece of a file.

    Attributes:
        tracks: process and thread of all tracks so far that have slices or instants, in the order
            of the file.
        others: the texts of the events that are neither slices nor ends of flows.
        consumed: how many bytes they are.
    """

    slices: ScannedSlices
    ends: ScannedEnds
    tracks: Sequence[tuple[Any, Any]]
    others: Sequence[bytes]
    consumed: int

    def __len__(self) -> int:
        return len(self.slices) + len(self.ends) + len(self.others)
