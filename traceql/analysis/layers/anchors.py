"""Finds the anchors of a stream: one place per layer and forward pass.

A layer with attention has one write to the KV cache, a layer with linear attention or a state-space
model has one update of a state. Kernels of both kinds that belong to one layer make one anchor.
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from traceql.analysis.layers.stream import Int64s, Stream
from traceql.analysis.layers.symbols import Trait, letter, letters
from traceql.analysis.layers.texts import NORMS, PRODUCTS, UNKNOWN

_STATES = letter("state_update") + letter("state_prefill")
_ANCHORS = letters(Trait.ANCHORS_LAYER)
# After a norm, an unclassified kernel may be a product.
_MAY_BE_PRODUCT = re.compile(f"[{PRODUCTS}]|[{NORMS}].*{UNKNOWN}")
_OTHER_LAYER = re.compile(f"[{letters(Trait.FEED_FORWARD)}{letter('sampling')}]")
# A norm whose output goes to a product: a layer may begin with it.
_NEW_LAYER = re.compile(f"[{NORMS}].*[{PRODUCTS}]")


@dataclass(frozen=True)
class Anchors:
    """The anchors of a stream, in its order.

    Attributes:
        first: the first kernel of each anchor.
        last: the last kernel of each anchor; the same one unless several kernels make the anchor.
    """

    first: Int64s
    last: Int64s


def anchors(stream: Stream) -> Anchors:
    """All anchors of a stream."""
    at = stream.positions(_ANCHORS)
    if not len(at):
        return Anchors(at, at)
    begins = np.append(True, ~_in_one_layer(stream, at))
    ends = np.append(begins[1:], True)
    return Anchors(at[begins], at[ends])


def _in_one_layer(stream: Stream, at: Int64s) -> npt.NDArray[np.bool_]:
    """Whether each of these kernels and the next one belong to the same layer."""
    first_state = _first_state(stream, at)
    same_step = np.diff(stream.step[at]) == 0
    found = np.zeros(len(at) - 1, np.bool_)
    places = at.tolist()
    for n in np.flatnonzero(same_step).tolist():
        found[n] = _same_layer(stream.letters[places[n] : places[n + 1] + 1], first_state)
    return found


@lru_cache(maxsize=4096)
def _same_layer(text: str, first_state: str) -> bool:
    """Whether the first and the last kernel of the text belong to the same layer.

    They do if no product is between them; if they are of different kinds and no norm begins a new
    layer; and if a layer updates its states twice, for requests in prefill and in decode.
    """
    first, last, between = text[0], text[-1], text[1:-1]
    if not _MAY_BE_PRODUCT.search(between):
        return True
    if first == last or _OTHER_LAYER.search(between):
        return False
    if first in _STATES and last in _STATES:
        return first == first_state
    return not _NEW_LAYER.search(between)


def _first_state(stream: Stream, at: Int64s) -> str:
    """Of the two kinds of state updates, the one that comes first in most steps that have both."""
    states = at[np.isin(stream.codes[at], np.frombuffer(_STATES.encode(), np.uint8))]
    if not len(states):
        return ""
    borders = np.flatnonzero(np.diff(stream.step[states])) + 1
    first = Counter[str]()
    for part in np.split(states, borders):
        if len({stream.letters[n] for n in part.tolist()}) > 1:
            first[stream.letters[int(part[0])]] += 1
    return max(first, key=lambda kind: first[kind]) if first else ""
