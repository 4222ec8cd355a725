"""Flow ends that travel on slices are tied to the same slices as those that are events."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from traceql.reader import feed
from traceql.reader.asked_nesting import nesting
from traceql.reader.bound_flows import BoundEnds, bound_ends
from traceql.reader.kineto.read import kineto_events
from traceql.reader.nesting import Nesting

Event = dict[str, Any]


def slice_of(tid: int, ts: int, dur: int) -> Event:
    return {"ph": "X", "pid": 1, "tid": tid, "ts": ts, "dur": dur, "name": "x", "cat": "kernel"}


def flow(phase: str, number: int, tid: int, ts: int, bind: str | None = "e") -> Event:
    end = {"ph": phase, "id": number, "pid": 1, "tid": tid, "ts": ts, "name": "f", "cat": "f"}
    return end | ({"bp": bind} if phase == "f" and bind else {})


def crowded(seed: int) -> list[Event]:
    """Slices that nest, overlap, share starts or have no duration, and flows of every shape."""
    draw = random.Random(seed)
    slices = [
        slice_of(draw.randrange(4), draw.randrange(9000), draw.choice([0, 1, 2, 5, 40]))
        for _ in range(1500)
    ]
    ends = []
    for number in range(400):
        phases = draw.choice(["sf"] * 12 + ["sff", "sfff", "stf", "ssf", "fs", "f", "s"])
        chosen = draw.sample(slices, len(phases))
        if draw.random() < 0.9:
            chosen.sort(key=lambda at: int(at["ts"]))
        for phase, at in zip(phases, chosen, strict=True):
            moved = draw.choice([0, 0, 0, 0, 0, 0, 1, -1])
            bind = draw.choice(["e", "e", "e", "e", None])
            ends.append(flow(phase, number, at["tid"], max(0, at["ts"] + moved), bind))
    return slices + ends


def found(folder: Path, events: list[Event]) -> tuple[list[Any], list[tuple[int, int]]]:
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    kineto = kineto_events(path)
    nested: Nesting = nesting(kineto.slices, kineto.flows, kineto.tracks, trace_processor=None)
    joined = zip(nested.slice_out.to_pylist(), nested.slice_in.to_pylist(), strict=True)
    return [nested.parent.to_pylist(), nested.depth.to_pylist()], sorted(joined)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_flows_are_tied_as_if_every_end_were_an_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    carried: list[int] = []

    def counted(flows: Any, **places: Any) -> BoundEnds:
        ends = bound_ends(flows, **places)
        carried.append(int((ends.slice >= 0).sum()))
        return ends

    def never(flows: Any, **places: Any) -> BoundEnds:
        ends = bound_ends(flows, **places)
        return BoundEnds(np.full(len(ends.slice), -1), ends.begins)

    events = crowded(seed)
    monkeypatch.setattr(feed, "bound_ends", counted)
    fast = found(tmp_path, events)
    monkeypatch.setattr(feed, "bound_ends", never)
    assert fast == found(tmp_path, events)
    assert carried[0] > 50  # some do travel on slices,
    assert len(fast[1]) > carried[0]  # and others do not


def test_a_launch_and_the_kernels_of_its_graph_travel_on_slices(tmp_path: Path) -> None:
    kernels = [slice_of(7, 20 + 10 * n, 5) for n in range(3)]
    ends = [flow("s", 1, 1, 10), *(flow("f", 1, 7, k["ts"]) for k in kernels)]
    _, joined = found(tmp_path, [slice_of(1, 10, 4), *kernels, *ends])
    assert joined == [(0, 1), (0, 2), (0, 3)]
