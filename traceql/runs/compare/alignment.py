"""Aligns kernels that have no role: by their names and their order on the streams."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from traceql.runs.compare.names import stem


@dataclass(frozen=True)
class Aligned:
    """Kernels at the same place in both sequences.

    Attributes:
        base: stems of the kernels of base, each once, in their order; empty if there are none.
        new: the same of new.
        base_kernels: number of kernels of base.
        new_kernels: number of kernels of new.
        base_ns: their duration, ns.
        new_ns: the same of new.
    """

    base: tuple[str, ...]
    new: tuple[str, ...]
    base_kernels: int
    new_kernels: int
    base_ns: int
    new_ns: int


def aligned(base: Sequence[tuple[str, int]], new: Sequence[tuple[str, int]]) -> list[Aligned]:
    """What became of which kernels, the largest change of time first.

    Every kernel is in exactly one row. Kernels of the same stem at the same place are one row; what
    is between two such places became what is between them on the other side.

    Args:
        base: name and duration, ns, of each kernel in the order of the streams.
        new: the same of the other side.
    """
    stems = [[stem(name) for name, _ in side] for side in (base, new)]
    matcher = SequenceMatcher(None, stems[0], stems[1], autojunk=False)
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for kind, base_from, base_to, new_from, new_to in matcher.get_opcodes():
        if kind == "equal":
            places = zip(range(base_from, base_to), range(new_from, new_to), strict=True)
            pieces = [((one, one + 1), (other, other + 1)) for one, other in places]
        else:
            pieces = [((base_from, base_to), (new_from, new_to))]
        for before, after in pieces:
            key = (_once(stems[0][slice(*before)]), _once(stems[1][slice(*after)]))
            sums = found.setdefault(key, [0, 0, 0, 0])
            sums[0] += before[1] - before[0]
            sums[1] += after[1] - after[0]
            sums[2] += sum(ns for _, ns in base[slice(*before)])
            sums[3] += sum(ns for _, ns in new[slice(*after)])
    rows = [Aligned(*key, *sums) for key, sums in found.items()]
    return sorted(rows, key=lambda row: (-abs(row.new_ns - row.base_ns), row.base, row.new))


def _once(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
