"""Matches kernels without a role between two sides, by their names and order."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

import duckdb
import pyarrow as pa

from traceql.runs.compare.changes import table_of

_UNNAMED = """
    SELECT stratum, side, LIST((name, profile_unnamed_kernel.ns) ORDER BY position)
    FROM profile_unnamed_kernel
    INNER JOIN total_run USING (side, run)
    GROUP BY stratum, side
"""
_UNNAMED_KERNEL = pa.schema({
    "stratum": "string", "base": pa.list_(pa.string()), "new": pa.list_(pa.string()),
    "base_kernels": "int64", "new_kernels": "int64", "base_ns": "int64", "new_ns": "int64",
})  # fmt: skip
_TEMPLATE = re.compile(r"<[^<>]*>")
_ARGUMENTS = re.compile(r"\([^()]*\)")
# Sizes of tiles and stages, as 128x64x32, and what is behind them in the name.
_TILES = re.compile(r"_?\d+x\d+(x\d+)*(_\d+x\d+(x\d+)*)*")
# The tiling of a Tensile kernel of AMD.
_TENSILE = re.compile(r"^(Cijk_[A-Za-z]+_[A-Za-z]+)_.*")
_NUMBER = re.compile(r"(_\d+)+(?=_|$)")
_VALUE = re.compile(r"\d+|true|false|int|bool|float|unsigned int|\S*bfloat16|c10::\w+")
_RETURNED = re.compile(r"^(void|int|bool|float)\s+")


def stem(name: str) -> str:
    """The name without template arguments, tile sizes and numbers.

    Two kernels of the same stem may do different things: Inductor kernels are numbered within their
    graph. Stems match kernels without a role.
    """
    text = _RETURNED.sub("", name)
    for pattern in (_TEMPLATE, _ARGUMENTS):
        previous = ""
        while previous != text:
            previous, text = text, pattern.sub("", text)
    text = _TENSILE.sub(r"\1", text)
    text = _NUMBER.sub("", _TILES.sub("", text))
    return text.strip(" _") or name


def short_name(name: str) -> str:
    """The name without arguments, and with only the names of its template arguments.

    `void cutlass::device_kernel<flash::Fwd<float, 4>, 2>(Params)` is
    `cutlass::device_kernel<flash::Fwd>`: the outer name alone is not specific.
    """
    text = _RETURNED.sub("", name)
    previous = ""
    while previous != text:
        previous, text = text, _ARGUMENTS.sub("", text)
    outer, depth, kept = "", 0, ""
    for letter in text:
        depth += letter == "<"
        if depth == 0:
            outer += letter
        elif depth == 1 and letter not in "<>":
            kept += letter
        depth -= letter == ">"
    parts = [part.strip() for part in kept.split(",")]
    named = [part for part in parts if part and not _VALUE.fullmatch(part)]
    return f"{outer.strip()}<{', '.join(named)}>" if named else outer.strip() or name


@dataclass(frozen=True)
class Aligned:
    """Kernels at the same place in both sequences.

    Attributes:
        base, new: stems of the kernels, each once, in their order; empty if there are none.
    """

    base: tuple[str, ...]
    new: tuple[str, ...]
    base_kernels: int
    new_kernels: int
    base_ns: int
    new_ns: int


def aligned(base: Sequence[tuple[str, int]], new: Sequence[tuple[str, int]]) -> list[Aligned]:
    """Matches the kernels of two sequences, the largest change of time first.

    Every kernel is in exactly one row. Kernels of the same stem at the same place are one row;
    those between two such places match those between them on the other side.

    Args:
        base, new: name and duration, ns, of each kernel in the order of the streams.
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
            key = (
                tuple(dict.fromkeys(stems[0][slice(*before)])),
                tuple(dict.fromkeys(stems[1][slice(*after)])),
            )
            sums = found.setdefault(key, [0, 0, 0, 0])
            sums[0] += before[1] - before[0]
            sums[1] += after[1] - after[0]
            sums[2] += sum(ns for _, ns in base[slice(*before)])
            sums[3] += sum(ns for _, ns in new[slice(*after)])
    rows = [Aligned(*key, *sums) for key, sums in found.items()]
    return sorted(rows, key=lambda row: (-abs(row.new_ns - row.base_ns), row.base, row.new))


def unnamed_rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """One row per stratum and kernels at one place: what became of kernels without a role."""
    sequences: dict[str, dict[str, list[tuple[str, int]]]] = {}
    for stratum, side, kernels in con.execute(_UNNAMED).fetchall():
        sequences.setdefault(stratum, {})[side] = kernels
    rows = [
        {"stratum": stratum, **vars(one)}
        for stratum, sides in sorted(sequences.items())
        if len(sides) == 2
        for one in aligned(sides["base"], sides["new"])
    ]
    return table_of(rows, _UNNAMED_KERNEL)
