"""Which layer and role each kernel has by the order of kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from traceql.layers.grammar import Grammar, grammars
from traceql.layers.sequence import Int64s, Layers, Stream, layers, roles


@dataclass(frozen=True)
class KernelStream:
    """One stream that writes to a KV cache, with its kernels."""

    rank: int
    device: int
    number: int
    ids: pa.Array
    ts: Int64s
    stream: Stream


@dataclass(frozen=True)
class _Recognised:
    """One stream with forward passes that a grammar knows."""

    place: KernelStream
    layers: Layers


def attributed(streams: Sequence[KernelStream], configured: int | None) -> list[pa.Table]:
    """Rows of table `kernel_layer` for the streams of one rank; none if no family is recognised.

    Args:
        configured: how many layers the model has, if that is known.
    """
    return _kernel_layers(_recognised(streams, configured))


def _recognised(places: Sequence[KernelStream], configured: int | None) -> Sequence[_Recognised]:
    """The streams of one rank that the grammar explaining most kernels knows.

    None where no grammar knows a whole forward pass. All streams run one model: that of the
    largest pass.
    """
    return max(
        (_by_grammar(places, grammar, configured) for grammar in grammars()),
        key=lambda found: sum(one.layers.explained for one in found),
    )


def _by_grammar(
    places: Sequence[KernelStream], grammar: Grammar, configured: int | None
) -> Sequence[_Recognised]:
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
    """Of each stream of a rank; its passes are counted over all of them, in order of time."""
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
    """Each pass with a numbered layer, and where its first one begins."""
    certain = found.number >= 0
    passes, first = np.unique(found.pass_number[certain], return_index=True)
    return list(zip(passes.tolist(), found.start[certain][first].tolist(), strict=True))


def _kernel_layer(found: _Recognised, ordinal: Mapping[int, int]) -> pa.Table:
    known = roles(found.place.stream, found.layers)
    rows = np.flatnonzero(known.code)
    layer, pass_number = known.layer[rows], known.pass_number[rows]
    of_rank = np.full(max(ordinal, default=-1) + 2, -1, np.int64)  # the last for those of none
    of_rank[list(ordinal)] = list(ordinal.values())
    family = pa.array([found.layers.grammar.name]).dictionary_encode()
    constant = pa.array(np.zeros(len(rows), np.int32))
    place = found.place
    return pa.table(
        {
            "id": place.ids.take(pa.array(rows)),
            **{
                name: np.full(len(rows), number)
                for name, number in (
                    ("rank", place.rank),
                    ("device", place.device),
                    ("stream", place.number),
                )
            },
            "family": family.dictionary.take(constant),
            "layers": np.full(len(rows), found.layers.count or 0),
            "pass": pa.array(of_rank[pass_number], mask=pass_number < 0),
            "layer": pa.array(layer, mask=layer < 0),
            "role": pa.DictionaryArray.from_arrays(
                known.code[rows], pa.array(known.names, pa.string())
            ),
        }
    )
