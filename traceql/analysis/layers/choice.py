"""Chooses the layer family that the layers of a rank belong to."""

from collections.abc import Mapping
from functools import lru_cache

from traceql.analysis.layers.families import Family, Kind, families, kinds_beside, unknown_kinds
from traceql.analysis.layers.naming import Alignment, aligned
from traceql.analysis.layers.symbols import letter
from traceql.analysis.layers.texts import UNKNOWN
from traceql.analysis.layers.unfused import CONTINUED, expanded

# The layers that occur most often tell the family.
_COMPARED = 6
# A family fits if nothing but unclassified kernels, light ones and their consequences keeps the
# layers from having exactly its roles, and if those are few: one unknown kernel in the place of a
# known one costs 2.
_FITS = 2.1
_FITS_PER_KERNEL = 0.15
# Layers that do not fit do not count against a family if they are at most such a share of those
# that were compared: they get their roles from kinds and places.
_EXCEPTIONS = 0.1
# The roles that the kind of a kernel tells, wherever in a layer it is.
_BY_KIND = {
    letter(symbol): role
    for symbol, role in (
        ("attention", "attention"),
        ("attention_combine", "attention"),
        ("kv_write", "kv_write"),
        ("state_update", "conv"),
        ("state_prefill", "conv"),
        ("rope", "rope"),
        ("topk", "topk"),
        ("expert_sort", "moe_align"),
        ("expert_sum", "moe_sum"),
    )
}


def family(texts: Mapping[str, int], model_type: str | None) -> Family | None:
    """The family whose roles fit the layers best; None if none fits.

    Args:
        texts: the letters of layers, and how often they occur.
        model_type: model_type in the model's configuration, if it is known. Of a model that is in
            no family's file, the family is unknown.
    """
    often = _voters(texts)
    known = [one for one in families() if model_type in one.model_types]
    candidates = known if model_type else families()
    fitting = [
        (round(cost, 1), len(one.kinds), one.generality, one.name, one)
        for one in candidates
        if (cost := _cost(often, texts, one)) is not None
    ]
    return min(fitting)[-1] if fitting else None


def _voters(texts: Mapping[str, int]) -> list[str]:
    """The texts that tell the family. One that occurs once, while others recur, may be damaged."""
    often = sorted(texts, key=lambda text: (-texts[text], text))[:_COMPARED]
    recurring = [text for text in often if texts[text] > 1]
    return recurring or often


def roles(text: str, chosen: Family | None) -> tuple[str | None, ...]:
    """The role of each kernel of a layer; None if it has none."""
    return expanded(text, _best(text.replace(CONTINUED, ""), chosen).roles)


def roles_beside(text: str) -> tuple[str | None, ...]:
    """The role of each kernel of a layer that runs beside its main stream."""
    kernels = text.replace(CONTINUED, "")
    found = _cheapest(kernels, kinds_beside())
    fits = _fits(found.cost, len(kernels))
    return expanded(text, found.roles if fits else (None,) * len(kernels))


@lru_cache(maxsize=8192)
def _best(text: str, chosen: Family | None) -> Alignment:
    """The alignment with the kind of layer that fits best."""
    if chosen:
        found = _cheapest(text, chosen.kinds)
        if _fits(found.cost, len(text)):
            return found
    found = _cheapest(text, unknown_kinds())
    # Where the place does not tell, the kind of the kernel may.
    roles = (role or _BY_KIND.get(kernel) for kernel, role in zip(text, found.roles, strict=True))
    return Alignment(found.cost, tuple(roles))


def _cheapest(text: str, kinds: tuple[Kind, ...]) -> Alignment:
    return min((aligned(text, kind) for kind in kinds), key=lambda one: one.cost)


def _cost(often: list[str], texts: Mapping[str, int], one: Family) -> float | None:
    """The mean cost of aligning layers with a family; None if too many do not fit."""
    total, exceptions = 0.0, 0
    for text in often:
        kernels = text.replace(CONTINUED, "")
        found = _cheapest(kernels, one.kinds)
        unknown = kernels.count(UNKNOWN)
        if found.missing > unknown or found.additional or not _fits(found.cost, len(kernels)):
            exceptions += texts[text]
        total += texts[text] * found.cost
    compared = sum(texts[text] for text in often)
    return total / compared if exceptions <= _EXCEPTIONS * compared else None


def _fits(cost: float, size: float) -> bool:
    return cost <= max(_FITS, _FITS_PER_KERNEL * size)
