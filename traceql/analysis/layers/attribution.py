"""Attributes the kernels of one rank to layers and roles, by the order of its kernels."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceql.analysis.layers.forward_passes import passes
from traceql.analysis.layers.kernel_text import Int64s, Stream, letter
from traceql.analysis.layers.layer_numbers import Layers, layer_count, numbered
from traceql.analysis.layers.roles import (
    ROLES_BY_SYMBOL,
    Family,
    family,
    outer_spans,
    roles,
    side_stream_roles,
)

_ROWS = 250_000  # of a table
_PRODUCT = letter("gemm")


@dataclass(frozen=True)
class KernelStream:
    """One stream, and its kernels in the order of their starts.

    Attributes:
        number: the number of the stream on its device.
        ids: the ids of the kernels.
        ts: the starts of the kernels, ns.
        end_ts: the ends of the kernels, ns.
        stream: the symbols and the steps of the kernels.
    """

    rank: int
    device: int
    number: int
    ids: Int64s
    ts: Int64s
    end_ts: Int64s
    stream: Stream


@dataclass(frozen=True)
class Model:
    """What is known of the model that a rank runs.

    Attributes:
        model_type: model_type in its configuration; None if it is unknown.
        layers: the number of layers in its configuration; None if it is unknown.
    """

    model_type: str | None
    layers: int | None


@dataclass(frozen=True)
class _Recognized:
    """One stream, and the layers that were found on it."""

    place: KernelStream
    layers: Layers

    @cached_property
    def texts(self) -> list[str]:
        """The letters of each layer."""
        return self.place.stream.texts(self.layers.start.tolist(), self.layers.end.tolist())


def attributed(streams: Sequence[KernelStream], model: Model) -> Iterator[pa.Table]:
    """Rows of table `kernel_layer_by_order` for the streams of one rank, in tables of bounded size.

    There are none if no layers are found.
    """
    found = _recognized(streams, model.layers)
    if not found:
        return
    texts = Counter(text for one in found for text in one.texts)
    chosen = family(texts, model.model_type)
    ordinals = _pass_ordinals(found)
    for one, ordinal in zip(found, ordinals, strict=True):
        yield from _on_main(one, chosen, ordinal)
    main = {id(one.place) for one in found}
    for place in streams:
        if id(place) not in main:
            yield from _on_side_stream(place, found, ordinals, chosen)


def _recognized(places: Sequence[KernelStream], configured: int | None) -> list[_Recognized]:
    """The streams of one rank on which layers are found.

    All streams run one model, so that the largest complete pass of any stream sets the number of
    layers for all.
    """
    segmented = [(place, passes(place.stream)) for place in places]
    counts = [layer_count(several, configured) for _, several in segmented]
    count = max((count for count in counts if count), default=None)
    found = [_Recognized(place, numbered(several, count)) for place, several in segmented]
    return [one for one in found if len(one.layers.start)]


def _pass_ordinals(found: Sequence[_Recognized]) -> list[dict[int, int]]:
    """For each stream, the number of each of its passes on the rank, in order of time."""
    begun = []
    for stream, one in enumerate(found):
        numbers, first = np.unique(one.layers.pass_number, return_index=True)
        starts = one.place.ts[one.layers.start[first]]
        begun += [(ts, stream, n) for n, ts in zip(numbers.tolist(), starts.tolist(), strict=True)]
    ordinals: list[dict[int, int]] = [{} for _ in found]
    for ordinal, (_, stream, number) in enumerate(sorted(begun)):
        ordinals[stream][number] = ordinal
    return ordinals


class _Rows:
    """What is known of each kernel of a stream.

    Attributes:
        layer: the layer of each kernel; -1 if it has none.
        in_pass: the forward pass of each kernel; -1 if it has none.
        role: the number of each kernel's role; 0 if it has none. Numbers are faster than texts.
    """

    def __init__(self, place: KernelStream) -> None:
        total = len(place.stream.letters)
        self._place = place
        self._numbers: dict[str | None, int] = {None: 0}
        self.layer = np.full(total, -1, np.int32)
        self.in_pass = np.full(total, -1, np.int32)
        self.role = np.zeros(total, np.int32)

    def numbers(self, roles: Iterable[str | None]) -> npt.NDArray[np.int32]:
        """A number for each role."""
        number = self._numbers
        return np.array([number.setdefault(role, len(number)) for role in roles], np.int32)

    def tables(
        self, layers: Layers, chosen: Family | None, *, confirmed: int | None
    ) -> Iterator[pa.Table]:
        """The rows of kernels that have a layer or a role."""
        found = np.flatnonzero((self.role > 0) | (self.layer >= 0))
        family = pa.scalar(chosen.name if chosen else None, pa.string())
        roles = pa.array(list(self._numbers), pa.string())
        for first in range(0, len(found), _ROWS):
            rows = found[first : first + _ROWS]
            layer, in_pass = (one[rows].astype(np.int64) for one in (self.layer, self.in_pass))
            yield pa.table(
                {
                    "id": self._place.ids[rows],
                    "rank": np.full(len(rows), self._place.rank),
                    "device": np.full(len(rows), self._place.device),
                    "stream": np.full(len(rows), self._place.number),
                    "family": pa.repeat(family, len(rows)),
                    "layers": np.full(len(rows), layers.count or 0),
                    "confirmed": pa.repeat(pa.scalar(confirmed, pa.int64()), len(rows)),
                    "pass": pa.array(in_pass, mask=in_pass < 0),
                    "layer": pa.array(layer, mask=layer < 0),
                    "role": roles.take(pa.array(self.role[rows])),
                }
            )


def _on_main(
    one: _Recognized, chosen: Family | None, ordinal: Mapping[int, int]
) -> Iterator[pa.Table]:
    """The rows of a stream on which layers are found."""
    stream, layers, rows = one.place.stream, one.layers, _Rows(one.place)
    by_symbol = np.zeros(128, np.int32)  # by ASCII code
    by_symbol[list(map(ord, ROLES_BY_SYMBOL))] = rows.numbers(ROLES_BY_SYMBOL.values())
    rows.role[:] = by_symbol[stream.codes]
    for start, end, named in outer_spans(stream, layers):
        rows.role[start:end] = rows.numbers(named)
    numbers = {text: rows.numbers(roles(text, chosen)) for text in set(one.texts)}
    columns = (layers.start, layers.end, layers.number, layers.pass_number)
    for text, start, end, number, of in zip(
        one.texts, *(column.tolist() for column in columns), strict=True
    ):
        rows.layer[start:end], rows.in_pass[start:end] = number, ordinal[of]
        rows.role[start:end] = numbers[text]
    return rows.tables(layers, chosen, confirmed=layers.confirmed)


def _on_side_stream(
    place: KernelStream,
    found: Sequence[_Recognized],
    ordinals: Sequence[Mapping[int, int]],
    chosen: Family | None,
) -> Iterator[pa.Table]:
    """The rows of another stream: kernels that run within the time of a layer."""
    rows = _Rows(place)
    for one, ordinal in zip(found, ordinals, strict=True):
        of = _layers_beside(place, one)
        inside = np.flatnonzero(of >= 0)
        rows.layer[inside] = one.layers.number[of[inside]]
        numbers = one.layers.pass_number[of[inside]]
        rows.in_pass[inside] = [ordinal[number] for number in numbers.tolist()]
        for group in np.split(inside, np.flatnonzero(np.diff(of[inside])) + 1):
            text = "".join(place.stream.letters[n] for n in group.tolist())
            rows.role[group] = rows.numbers(side_stream_roles(text))
    return rows.tables(found[0].layers, chosen, confirmed=None)


def _layers_beside(place: KernelStream, one: _Recognized) -> Int64s:
    """The layer in whose time each kernel of another stream runs; -1 if there is none.

    A layer lasts until the kernel after it starts in its step, or else until its own end.
    """
    main, layers = one.place, one.layers
    after = np.minimum(layers.end, len(main.ts) - 1)
    in_step = main.stream.step[after] == main.stream.step[layers.end - 1]
    until_ts = np.where(
        (layers.end < len(main.ts)) & in_step, main.ts[after], main.end_ts[layers.end - 1]
    )
    layer = np.searchsorted(main.ts[layers.start], place.ts, side="right") - 1
    layer = np.where((layer >= 0) & (place.end_ts <= until_ts[layer]), layer, -1)
    borders = np.flatnonzero(np.diff(layer)) + 1
    spans = list(pairwise([0, *borders.tolist(), len(layer)]))
    texts = [place.stream.letters[begin:end] for begin, end in spans]
    count = Counter(
        text for text, (begin, _) in zip(texts, spans, strict=True) if layer[begin] >= 0
    )
    for text, (begin, end) in zip(texts, spans, strict=True):
        if count[text] < 2 or _PRODUCT not in text:
            layer[begin:end] = -1
    return layer
