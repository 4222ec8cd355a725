"""Passes whose kernels before and after the layers are missing, and layers that are there twice."""

from collections.abc import Iterable

import numpy as np
import pytest
from damage import damaged, damaged_recordings, pass_spans, whole_layers
from letters import layer_of_kernels, layers_of
from recorded_layers import main_stream
from recordings import Recording

from traceql.layers.stream import Stream

every_recording = pytest.mark.parametrize("recording", damaged_recordings())


def without_steps(stream: Stream) -> Stream:
    return Stream(stream.letters, np.full_like(stream.step, -1))


def kernels_between(recording: Recording) -> Iterable[range]:
    """The kernels between the layers of each pass and those of the next one."""
    layers = whole_layers(recording)
    for (_, high), (begin, _) in zip(
        pass_spans(recording), pass_spans(recording)[1:], strict=False
    ):
        last = int(np.flatnonzero(layers[:high] >= 0)[-1])
        first = begin + int(np.flatnonzero(layers[begin:] >= 0)[0])
        yield range(last + 1, first)


@every_recording
def test_passes_without_a_border_between_them_get_no_wrong_layer(recording: Recording) -> None:
    truth = layer_of_kernels(without_steps(main_stream(recording)))
    for between in kernels_between(recording):
        for missing in (between, between[3:], between[: len(between) // 2], between[-1:]):
            kept = [at for at in range(len(truth)) if at not in missing]
            found = layer_of_kernels(without_steps(damaged(recording, kept, {})))
            assert found[(found >= 0) & (found != truth[kept])].tolist() == [], missing


@every_recording
def test_layers_that_are_there_twice_make_no_layer_wrong(recording: Recording) -> None:
    found, layers = layers_of(main_stream(recording)), whole_layers(recording)
    for number in sorted(set(found.pass_number.tolist())):
        of_pass = found.pass_number == number
        if of_pass.sum() < 4:
            continue
        begin, end = int(found.start[of_pass][1]), int(found.start[of_pass][3])
        kept = [*range(end), *range(begin, len(layers))]
        seen = layer_of_kernels(damaged(recording, kept, {}))
        assert seen[(seen >= 0) & (seen != layers[kept])].tolist() == [], number
