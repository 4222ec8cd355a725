"""Finds the layers of kernels that run beside the main stream, such as those of a shared expert.

Such kernels wait for the main stream, and it waits for them, within one layer. So a group of them
belongs to the layer in whose time it runs, provided that other layers have the same group. The time
of a layer ends when the kernel after it begins, because the main stream may end it by waiting.
"""

from collections import Counter
from itertools import pairwise

import numpy as np

from traceql.analysis.layers.stream import Int64s
from traceql.analysis.layers.symbols import letter

_PRODUCT = letter("gemm")


def layers_beside(
    kernels: str, ts: Int64s, end_ts: Int64s, layer_ts: Int64s, until_ts: Int64s
) -> Int64s:
    """The layer in whose time each kernel of another stream runs; -1 if there is none.

    Args:
        kernels: one letter per kernel of the other stream, in the order of their starts.
        ts: the start of each kernel, ns.
        end_ts: the end of each kernel, ns.
        layer_ts: the start of each layer on the main stream, in their order, ns.
        until_ts: when each layer has ended on the main stream, ns.
    """
    if not len(layer_ts):
        return np.full(len(ts), -1, np.int64)
    layer = np.searchsorted(layer_ts, ts, side="right") - 1
    layer = np.where((layer >= 0) & (end_ts <= until_ts[layer]), layer, -1)
    borders = np.flatnonzero(np.diff(layer)) + 1
    spans = list(pairwise([0, *borders.tolist(), len(layer)]))
    texts = [kernels[begin:end] for begin, end in spans]
    count = Counter(
        text for text, (begin, _) in zip(texts, spans, strict=True) if layer[begin] >= 0
    )
    for text, (begin, end) in zip(texts, spans, strict=True):
        if count[text] < 2 or _PRODUCT not in text:
            layer[begin:end] = -1
    return layer
