"""Attributes the kernels of one rank to layers and roles, by the order of its kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from traceql.layers.grammar import Grammar, grammars
from traceql.layers.sequence import Int64s, Layers, Stream, layers, roles


@dataclass(frozen=True)
class KernelStream:
    """One stream with KV-cache writes, and its kernels in the order of their starts.

    Attributes:
        number: the number of the stream on its device.
        ids: the ids of the kernels.
        ts: the starts of the kernels, ns.
        stream: the symbols and the steps of the kernels.
    """

    rank: int
    device: int
    number: int
    ids: pa.Array
    ts: Int64s
    stream: Stream


@dataclass(frozen=True)
class _Recognised:
    """One stream, and the layers of a family that were recognized on it."""

    place: KernelStream
    layers: Layers


def attributed(streams: Sequence[KernelStream], configured: int | None) -> list[pa.Table]:
    """Rows of table `kernel_layer` for the streams of one rank, one Arrow table per stream.

    There are none if no family is recognized.

    Args:
        configured: the number of layers in the model's configuration, if it is known.
    """
    return _kernel_layers(_recognised(streams, configured))


def _recognised(places: Sequence[KernelStream], configured: int | None) -> Sequence[_Recognised]:
    """The streams of one rank with layers of the family that explains most kernels.

    Empty if no family has a complete forward pass there.
    """
    return max(
        (_by_grammar(places, grammar, configured) for grammar in grammars()),
        key=lambda found: sum(one.layers.explained for one in found),
    )


def _by_grammar(
    places: Sequence[KernelStream], grammar: Grammar, configured: int | None
) -> Sequence[_Recognised]:
    """The streams of one rank on which layers of this family are recognized.

    All streams run one model, so that the largest complete pass of any stream sets the number of
    layers for all.
    """
    found = [layers(place.stream, grammar, configured=configured) for place in places]
    count = max((one.count for one in found if one.count), default=None)
    same = [
        one if one.count == count else layers(place.stream, grammar, count=count)
        for place, one in zip(places, found, strict=True)
    ]
    return [
        _Recognised(place, one)
        for place, one in zip(places, same, strict=True)
        if one.explained > 0
    ]


def _kernel_layers(found: Sequence[_Recognised]) -> list[pa.Table]:
    """The rows of each stream of a rank; passes are counted across streams, in order of time."""
    begun = [
        (int(one.place.ts[start]), stream, number)
        for stream, one in enumerate(found)
        for number, start in _pass_starts(one.layers)
    ]
    ordinal = {(stream, number): n for n, (_, stream, number) in enumerate(sorted(begun))}
    return [
        _kernel_layer(one, {n: p for (of, n), p in ordinal.items() if of == stream})
        for stream, one in enumerate(found)
    ]


def _pass_starts(found: Layers) -> Sequence[tuple[int, int]]:
    """Each pass that has numbered layers, with the first kernel of the first such layer."""
    certain = found.number >= 0
    passes, first = np.unique(found.pass_number[certain], return_index=True)
    return list(zip(passes.tolist(), found.start[certain][first].tolist(), strict=True))


def _kernel_layer(found: _Recognised, ordinal: Mapping[int, int]) -> pa.Table:
    """The rows of one stream.

    Args:
        ordinal: for the number of each pass on the stream, its number on the rank.
    """
    known = roles(found.place.stream, found.layers)
    rows = np.flatnonzero(known.code)
    layer, pass_number = known.layer[rows], known.pass_number[rows]
    # The last element is for kernels outside passes, whose pass_number is -1.
    of_rank = np.full(max(ordinal, default=-1) + 2, -1, np.int64)
    of_rank[list(ordinal)] = list(ordinal.values())
    place = found.place
    return pa.table(
        {
            "id": place.ids.take(pa.array(rows)),
            "rank": np.full(len(rows), place.rank),
            "device": np.full(len(rows), place.device),
            "stream": np.full(len(rows), place.number),
            "family": pa.repeat(found.layers.grammar.name, len(rows)),
            "layers": np.full(len(rows), found.layers.count or 0),
            "pass": pa.array(of_rank[pass_number], mask=pass_number < 0),
            "layer": pa.array(layer, mask=layer < 0),
            "role": pa.DictionaryArray.from_arrays(
                known.code[rows], pa.array(known.names, pa.string())
            ),
        }
    )
