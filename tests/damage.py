"""Damage to the kernels of recordings, and the layers that are found then."""

import random
from functools import cache
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from letters import layer_of_kernels, layers_of
from recorded_layers import folded_symbols, main_kernels, main_stream
from recordings import Recording, recordings

from traceql.analysis.layers.kernel_text import Int64s, Stream, letter

UNKNOWN = letter("unclassified")
ADDED = -2  # the place of a kernel that damage added
_QUICK = {"deepseekv2-graph"}
_UNRECOGNIZED = {"nemotron_h"}


def damaged_recordings(*, without: tuple[str, ...] = ()) -> list[Any]:
    """Recordings as parameters, those whose layers are recognized: one is quick.

    Args:
        without: model types to leave out.
    """
    return [
        pytest.param(one, id=one.name, marks=[] if one.name in _QUICK else [pytest.mark.slow])
        for one in recordings()
        if one.model_type not in _UNRECOGNIZED | {*without}
    ]


@cache
def whole_layers(recording: Recording) -> Int64s:
    """The layer of each kernel of the undamaged stream."""
    return layer_of_kernels(main_stream(recording))


@cache
def whole_numbers(recording: Recording) -> Int64s:
    """A number for each layer of each pass, for each kernel; -1 outside layers."""
    found = layers_of(main_stream(recording))
    number = np.full(len(whole_layers(recording)), -1, np.int64)
    for n, (start, end) in enumerate(zip(found.start.tolist(), found.end.tolist(), strict=True)):
        number[start:end] = n
    return number


def damaged(recording: Recording, kept: list[int], added: dict[int, str]) -> Stream:
    """The kernels at these places, in which others are added or replaced.

    Args:
        kept: the places of the kernels; ADDED for one that was not there.
        added: the letters of kernels in `kept` that are not those of the recording.
    """
    stream, found = main_stream(recording), main_kernels(recording)
    symbols = [added.get(n) or found[place].symbol for n, place in enumerate(kept)]
    names = ["" if n in added else found[place].name for n, place in enumerate(kept)]
    text = folded_symbols(symbols, names)
    steps, step = [], -1
    for place in kept:
        step = step if place == ADDED else int(stream.step[place])
        steps.append(step)
    return Stream(text, np.array(steps, np.int64))


def wrong_and_lost(recording: Recording, stream: Stream, kept: list[int]) -> tuple[Int64s, Int64s]:
    """The places of kernels that have a wrong layer, and of those that lost theirs."""
    places = np.array(kept)
    found = layer_of_kernels(stream)[places != ADDED]
    places = places[places != ADDED]
    truth = whole_layers(recording)[places]
    wrong = places[(found >= 0) & (found != truth)]
    return wrong, places[(found < 0) & (truth >= 0)]


def chance(recording: Recording, what: str) -> random.Random:
    return random.Random(crc32(f"{recording} {what}".encode()))


def removed(at: int, places: list[int], _: str) -> tuple[list[int], dict[int, str]]:
    return places[:at] + places[at + 1 :], {}


def inserted(at: int, places: list[int], other: str) -> tuple[list[int], dict[int, str]]:
    return [*places[:at], ADDED, *places[at:]], {at: other}


def replaced(at: int, places: list[int], _: str) -> tuple[list[int], dict[int, str]]:
    return places, {at: UNKNOWN}


@cache
def pass_spans(recording: Recording) -> list[tuple[int, int]]:
    """The kernels of each pass, with those before its layers and up to the next pass's."""
    stream, found = main_stream(recording), layers_of(main_stream(recording))
    spans: list[tuple[int, int]] = []
    for number in sorted(set(found.pass_number.tolist())):
        of_pass = found.pass_number == number
        first, last = int(found.start[of_pass][0]), int(found.end[of_pass][-1])
        low = max([stream.step_bounds(first)[0], *(end for _, end in spans)])
        following = found.start[found.start >= last]
        high = min([stream.step_bounds(first)[1], *following[:1].tolist()])
        spans.append((low, high))
    return spans
