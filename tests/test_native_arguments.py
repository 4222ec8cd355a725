"""Arguments of a native trace: lists come back as lists, and odd keys cost nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
from test_native_losses import event, packet, written

from traceql.readers.formats.perfetto.read import read_native


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("[[1, 2], [3, [4, 5]]]", {"a": [[1, 2], [3, [4, 5]]]}),
        ('{"x": [1, 2], "y": 3}', {"a.x": [1, 2], "a.y": 3}),
        # A list cannot have this place, or would be far longer than the file.
        ('{"x[300000000]": 1}', {"a.x[300000000]": 1}),
        ('{"x[0]": 1, "x[0][1]": 2}', {"a.x": [1], "a.x[0][1]": 2}),
        ('{"x[0][1]": 2, "x[0]": 1}', {"a.x": [[None, 2]], "a.x[0]": 1}),
        ('{"x[\u0663]": 1}', {"a.x[\u0663]": 1}),
    ],
)
def test_keys_of_arguments(argument: str, expected: dict[str, Any], tmp_path: Path) -> None:
    begun = event(0, TrackEvent.TYPE_SLICE_BEGIN, name="n")
    begun.track_event.debug_annotations.add(name="a", legacy_json_value=argument)
    packets = [
        packet(track_descriptor={"uuid": 5, "name": "t"}, sequence_flags=1), begun,
        event(9, TrackEvent.TYPE_SLICE_END),
    ]  # fmt: skip
    tables = read_native(written(tmp_path, packets), trace_processor=None)
    (args,) = tables.tables["slice"]["args"].to_pylist()
    assert json.loads(args) == expected
