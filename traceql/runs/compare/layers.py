"""Whether all layers moved alike, or a few."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median

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
