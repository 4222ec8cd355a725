"""Streams in letters, one per kernel, and the layers and roles that are found on them."""

from typing import NamedTuple

import numpy as np

from traceql.analysis.layers.attribution import KernelStream, Model, attributed
from traceql.analysis.layers.forward_passes import passes
from traceql.analysis.layers.kernel_text import Int64s, Stream
from traceql.analysis.layers.layer_numbers import Layers, layer_count, numbered


class Known(NamedTuple):
    """What is known of each kernel of a stream.

    Attributes:
        layer: -1 where there is none.
        role: None where there is none.
        family: of the whole stream.
    """

    layer: Int64s
    role: list[str | None]
    family: str | None


def stream_of(*texts: str) -> Stream:
    """A stream of several steps, each of these letters."""
    steps = [np.full(len(text), n, np.int64) for n, text in enumerate(texts)]
    return Stream("".join(texts), np.concatenate(steps))


def layers_of(stream: Stream) -> Layers:
    found = passes(stream)
    return numbered(found, layer_count(found, None))


def layer_of_kernels(stream: Stream) -> Int64s:
    """The layer of each kernel; -1 where there is none."""
    found = layers_of(stream)
    layer = np.full(len(stream.letters), -1, np.int64)
    columns = (found.start.tolist(), found.end.tolist(), found.number.tolist())
    for start, end, number in zip(*columns, strict=True):
        layer[start:end] = number
    return layer


def known(stream: Stream, model_type: str | None = None) -> Known:
    total = len(stream.letters)
    ts = np.arange(total, dtype=np.int64) * 10
    place = KernelStream(0, 0, 7, np.arange(total), ts, ts + 8, stream)
    layer = np.full(total, -1, np.int64)
    role: list[str | None] = [None] * total
    family = None
    for table in attributed([place], Model(model_type, None)):
        for row in table.to_pylist():
            layer[row["id"]] = -1 if row["layer"] is None else row["layer"]
            role[row["id"]] = row["role"]
            family = row["family"]
    return Known(layer, role, family)
