"""Whether all layers of a role changed alike between two sides, or which ones did not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median

import duckdb
import pyarrow as pa

from traceql.runs.compare.changes import table_of

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


@dataclass(frozen=True)
class LayerChange:
    """How a role changed, layer by layer.

    Attributes:
        role: the role, or all.
        layers: number of layers with it on both sides.
        usual: the change of the median layer, relative.
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
        roles.setdefault(role, {})[layer] = (base_ns, new_ns)

    def order(change: LayerChange) -> tuple[float, bool, str]:
        largest = max((abs(new - base) for *_, base, new in change.apart), default=0)
        return -largest, change.role != "all", change.role

    changes = [_change(role, layers, step_ns) for role, layers in roles.items()]
    return sorted((one for one in changes if one), key=order)


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
    """The distance of a layer from the typical change, on the side where it is smaller."""
    return min(abs(new - base * usual), abs(base - new / usual))


def layer_rows(con: duckdb.DuckDBPyConnection) -> pa.Table:
    """One row per scope and role: whether its layers changed alike."""
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
