"""Tables of a comparison that SQL alone does not make."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from io import BytesIO
from math import exp, log
from statistics import median

import duckdb
import pyarrow as pa
import pyarrow.json as pj

from traceql.runs.compare.setup import Difference


def table_of(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    """A table with these rows; each has a value for each column, which JSON can hold."""
    lines = [json.dumps(row, allow_nan=False) for row in rows]
    if not lines:
        # A file without rows cannot be read.
        lines = [json.dumps(dict.fromkeys(schema.names))]
    text = "\n".join(lines).encode()
    read = pj.read_json(
        BytesIO(text),
        read_options=pj.ReadOptions(use_threads=False, block_size=max(len(text), 1)),
        parse_options=pj.ParseOptions(explicit_schema=schema),
    )
    return read.slice(0, len(rows))


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

    Two kernels of the same stem may do different things: an Inductor kernel is numbered by its
    graph. A stem only tells what may be the same kernel where no role does.
    """
    text = _RETURNED.sub("", name)
    for pattern in (_TEMPLATE, _ARGUMENTS):
        previous = ""
        while previous != text:
            previous, text = text, pattern.sub("", text)
    text = _TENSILE.sub(r"\1", text)
    text = _NUMBER.sub("", _TILES.sub("", text))
    return text.strip(" _") or name


def short(name: str) -> str:
    """The name for people: without arguments, and with the names of its template arguments alone.

    `void cutlass::device_kernel<flash::Fwd<float, 4>, 2>(Params)` is
    `cutlass::device_kernel<flash::Fwd>`: the outer name alone says nothing.
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


_LEAST_LAYERS = 3  # from which on the others show what is usual
_LEAST_DISTANCE = 0.03  # relative; less is the noise between equal kernels
_LEAST_SHARE = 0.001  # of the step
_DEVIATIONS = 5  # median absolute deviations that are unusual
_NORMAL = 1.4826  # a normal distribution's deviation in median absolute deviations


@dataclass(frozen=True)
class LayerChange:
    """How a role moved, layer by layer.

    Attributes:
        role: the role, or all.
        layers: number of layers with it on both sides.
        usual: the change of the median layer, relative.
        low: the least change of a layer that moved with the others.
        high: the greatest one.
        apart: the layers that moved otherwise, each with its change and its two times, ns.
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
    """How each role moved, those with layers apart first.

    Args:
        values: role, layer, and time on both sides, ns.
        step_ns: duration of the step, mean of the two sides, ns.
    """
    roles: dict[str, dict[int, tuple[float, float]]] = {}
    for role, layer, base_ns, new_ns in values:
        roles.setdefault(role, {})[layer] = (base_ns, new_ns)
    found = [_change(role, layers, step_ns) for role, layers in roles.items()]
    return sorted(
        (one for one in found if one), key=lambda one: (-_moved(one), one.role != "all", one.role)
    )


def _moved(change: LayerChange) -> float:
    return max((abs(new - base) for *_, base, new in change.apart), default=0)


def _change(
    role: str, layers: Mapping[int, tuple[float, float]], step_ns: float
) -> LayerChange | None:
    moves = {
        layer: log(new / base) for layer, (base, new) in layers.items() if base > 0 and new > 0
    }
    if len(moves) < _LEAST_LAYERS:
        return None
    usual = median(moves.values())
    spread = _NORMAL * median(abs(move - usual) for move in moves.values())
    unusual = max(_DEVIATIONS * spread, _LEAST_DISTANCE)
    apart = [
        layer
        for layer, move in moves.items()
        if abs(move - usual) > unusual
        and _distance(*layers[layer], exp(usual)) > _LEAST_SHARE * step_ns
    ]
    alike = [move for layer, move in moves.items() if layer not in apart]
    return LayerChange(
        role,
        len(moves),
        exp(usual) - 1,
        exp(min(alike)) - 1,
        exp(max(alike)) - 1,
        tuple((layer, exp(moves[layer]) - 1, *layers[layer]) for layer in sorted(apart)),
    )


def _distance(base: float, new: float, usual: float) -> float:
    """How far a layer is from where it would be with the others, on the side where it is less."""
    return min(abs(new - base * usual), abs(base - new / usual))


_LAYERS = """
    WITH step AS (
        SELECT scope, SUM(base_ns + new_ns) / 2 AS ns FROM waterfall GROUP BY scope
    )
    SELECT layer.scope, role, LIST((layer, base_ns, new_ns) ORDER BY layer), ANY_VALUE(step.ns)
    FROM layer
    INNER JOIN step USING (scope)
    GROUP BY layer.scope, role
    ORDER BY layer.scope, role
"""
_UNNAMED = """
    SELECT stratum, side, LIST((name, profile_unnamed_kernel.ns) ORDER BY position)
    FROM profile_unnamed_kernel
    INNER JOIN total_run USING (side, run)
    GROUP BY stratum, side
"""
_LAYER_CHANGE = pa.schema(
    [
        ("scope", pa.string()),
        ("role", pa.string()),
        ("layers", pa.int64()),
        ("usual_pct", pa.float64()),
        ("low_pct", pa.float64()),
        ("high_pct", pa.float64()),
        (
            "apart",
            pa.list_(
                pa.struct(
                    [
                        ("layer", pa.int64()),
                        ("change_pct", pa.float64()),
                        ("base_ns", pa.float64()),
                        ("new_ns", pa.float64()),
                    ]
                )
            ),
        ),
    ]
)
_UNNAMED_KERNEL = pa.schema(
    [
        ("stratum", pa.string()),
        ("base", pa.list_(pa.string())),
        ("new", pa.list_(pa.string())),
        ("base_kernels", pa.int64()),
        ("new_kernels", pa.int64()),
        ("base_ns", pa.int64()),
        ("new_ns", pa.int64()),
    ]
)
_SETUP = pa.schema(
    [
        ("name", pa.string()),
        ("title", pa.string()),
        ("effect", pa.string()),
        ("reason", pa.string()),
        ("base", pa.list_(pa.string())),
        ("new", pa.list_(pa.string())),
    ]
)


def setup_rows(found: Sequence[Difference]) -> pa.Table:
    """One row per difference of the set-up."""
    rows = [vars(one) | {"effect": str(one.effect)} for one in found]
    return table_of(rows, _SETUP)


def layer_rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """One row per scope and role: whether its layers moved alike."""
    scopes: dict[str, list[tuple[str, int, float, float]]] = {}
    steps: dict[str, float] = {}
    for scope, role, layers, step_ns in con.execute(_LAYERS).fetchall():
        steps[scope] = step_ns
        scopes.setdefault(scope, []).extend((role, *layer) for layer in layers)
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
        for scope, values in scopes.items()
        for one in layer_changes(values, steps[scope])
    ]
    return table_of(rows, _LAYER_CHANGE)


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
