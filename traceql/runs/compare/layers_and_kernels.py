"""The layers that changed unlike the others, and kernels without a role on both sides."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from math import exp, log
from statistics import median
from typing import NamedTuple

import duckdb
import pyarrow as pa

from traceql.runs.compare.changes import table_of

_UNNAMED = """
    WITH sequence AS (
        SELECT stratum, side, LIST((name, kernel.ns) ORDER BY position) AS kernels
        FROM profile_unnamed_kernel AS kernel
        INNER JOIN total_run USING (side, run)
        GROUP BY stratum, side
    )
    SELECT stratum, base.kernels, new.kernels
    FROM (FROM sequence WHERE side = 'base') AS base
    INNER JOIN (FROM sequence WHERE side = 'new') AS new USING (stratum)
    ORDER BY stratum
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
    text = _without(_ARGUMENTS, _without(_TEMPLATE, _RETURNED.sub("", name)))
    text = _TENSILE.sub(r"\1", text)
    text = _NUMBER.sub("", _TILES.sub("", text))
    return text.strip(" _") or name


def short_name(name: str) -> str:
    """The name without arguments, and with only the names of its template arguments.

    `void cutlass::device_kernel<flash::Fwd<float, 4>, 2>(Params)` is
    `cutlass::device_kernel<flash::Fwd>`: the outer name alone is not specific.
    """
    text = _without(_ARGUMENTS, _RETURNED.sub("", name))
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


def _without(pattern: re.Pattern[str], text: str) -> str:
    """The text without all matches, also those that appear when others are removed."""
    while (shorter := pattern.sub("", text)) != text:
        text = shorter
    return text


class Aligned(NamedTuple):
    """Kernels at the same place in both sequences; each stem once, in their order."""

    base: tuple[str, ...]
    new: tuple[str, ...]
    base_kernels: int
    new_kernels: int
    base_ns: int
    new_ns: int


def aligned(base: Sequence[tuple[str, int]], new: Sequence[tuple[str, int]]) -> list[Aligned]:
    """Matches the kernels of two sequences of names and ns, the largest change of time first.

    Every kernel is in exactly one row. Kernels of the same stem at the same place are one row;
    those between two such places match those between them on the other side.
    """
    stems = [[stem(name) for name, _ in side] for side in (base, new)]
    matcher = SequenceMatcher(None, stems[0], stems[1], autojunk=False)
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for kind, base_from, base_to, new_from, new_to in matcher.get_opcodes():
        pieces = [(slice(base_from, base_to), slice(new_from, new_to))]
        if kind == "equal":
            count = base_to - base_from
            pieces = [
                (slice(base_from + n, base_from + n + 1), slice(new_from + n, new_from + n + 1))
                for n in range(count)
            ]
        for before, after in pieces:
            kernels = base[before], new[after]
            key = (*dict.fromkeys(stems[0][before]),), (*dict.fromkeys(stems[1][after]),)
            more = [*map(len, kernels), *(sum(ns for _, ns in side) for side in kernels)]
            found[key] = [a + b for a, b in zip(found.get(key, [0] * 4), more, strict=True)]
    rows = [Aligned(*key, *sums) for key, sums in found.items()]
    return sorted(rows, key=lambda row: (-abs(row.new_ns - row.base_ns), row.base, row.new))


def unnamed_rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """One row per stratum and kernels at one place: what became of kernels without a role."""
    rows = [
        {"stratum": stratum, **one._asdict()}
        for stratum, base, new in con.execute(_UNNAMED).fetchall()
        for one in aligned(base, new)
    ]
    return table_of(rows, _UNNAMED_KERNEL)


_LAYERS = """
    WITH step AS (
        SELECT scope, SUM(base_ns + new_ns) / 2 AS ns FROM waterfall GROUP BY scope
    )
    SELECT scope, LIST((role, layer, base_ns, new_ns) ORDER BY role, layer), ANY_VALUE(step.ns)
    FROM layer
    INNER JOIN step USING (scope)
    GROUP BY scope
    ORDER BY scope
"""
_LAYER = pa.struct({
    "layer": "int64", "change_pct": "float64", "base_ns": "float64", "new_ns": "float64",
})  # fmt: skip
_LAYER_CHANGE = pa.schema({
    "scope": "string", "role": "string", "layers": "int64", "usual_pct": "float64",
    "low_pct": "float64", "high_pct": "float64", "apart": pa.list_(_LAYER),
})  # fmt: skip
_LEAST_LAYERS = 3  # to know the typical change
_LEAST_DISTANCE = 0.03  # relative; equal kernels differ by less
_LEAST_SHARE = 0.001  # of the step
_DEVIATIONS = 5  # median absolute deviations that are unusual
_NORMAL = 1.4826  # a normal distribution's deviation in median absolute deviations


class LayerChange(NamedTuple):
    """How a role, or all together, changed in the layers that both sides have, relative.

    Attributes:
        usual: the change of the median layer.
        low, high: the range of the layers that changed alike.
        apart: the other layers, each with its change and its two times, ns.
    """

    role: str
    layers: int
    usual: float
    low: float
    high: float
    apart: tuple[tuple[int, float, float, float], ...]


def layer_changes(
    values: Sequence[tuple[str, int, float, float]], step_ns: float
) -> list[LayerChange]:
    """How each role changed, those with layers apart first.

    Args:
        values: role, layer, and time on both sides, ns.
        step_ns: duration of the step, mean of the two sides, ns.
    """
    roles: dict[str, dict[int, tuple[float, float]]] = {}
    for role, layer, base_ns, new_ns in values:
        times = roles.setdefault(role, {})
        if base_ns > 0 and new_ns > 0:
            times[layer] = (base_ns, new_ns)

    def order(change: LayerChange) -> tuple[float, bool, str]:
        largest = max((abs(new - base) for *_, base, new in change.apart), default=0)
        return -largest, change.role != "all", change.role

    changes = [
        _layer_change(role, times, step_ns)
        for role, times in roles.items()
        if len(times) >= _LEAST_LAYERS
    ]
    return sorted(changes, key=order)


def _layer_change(role: str, times: dict[int, tuple[float, float]], step_ns: float) -> LayerChange:
    moves = {layer: log(new / base) for layer, (base, new) in times.items()}
    usual = median(moves.values())
    spread = _NORMAL * median(abs(move - usual) for move in moves.values())
    unusual = max(_DEVIATIONS * spread, _LEAST_DISTANCE)

    def distance(base: float, new: float) -> float:
        """That from the typical change, on the side where it is smaller."""
        return min(abs(new - base * exp(usual)), abs(base - new / exp(usual)))

    apart = [
        layer
        for layer, move in moves.items()
        if abs(move - usual) > unusual and distance(*times[layer]) > _LEAST_SHARE * step_ns
    ]
    alike = [exp(move) - 1 for layer, move in moves.items() if layer not in apart]
    return LayerChange(
        role,
        len(moves),
        exp(usual) - 1,
        min(alike),
        max(alike),
        tuple((layer, exp(moves[layer]) - 1, *times[layer]) for layer in sorted(apart)),
    )


def layer_rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """One row per scope and role: whether its layers changed alike."""
    rows = [
        {
            "scope": scope,
            "role": one.role,
            "layers": one.layers,
            "usual_pct": 100 * one.usual,
            "low_pct": 100 * one.low,
            "high_pct": 100 * one.high,
            "apart": [
                {"layer": layer, "change_pct": 100 * change, "base_ns": base, "new_ns": new}
                for layer, change, base, new in one.apart
            ],
        }
        for scope, values, step_ns in con.execute(_LAYERS).fetchall()
        for one in layer_changes(values, step_ns)
    ]
    return table_of(rows, _LAYER_CHANGE)
