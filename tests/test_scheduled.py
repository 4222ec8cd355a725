"""What capture notes of each iteration that vLLM's scheduler hands to a worker."""

import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from capture.engine_options import (
    EngineOptions,
    engine_arguments,
    with_detailed_annotation,
)
from capture.profilers import ProfilerOptions, PyTorch
from capture.run_directory import write_steps
from capture.worker_extension import WorkerExtension, _install_window, computed_tokens


def scheduler_output(
    scheduled: dict[str, int], *, new: dict[str, int], cached: dict[str, int]
) -> SimpleNamespace:
    """A SchedulerOutput of vLLM, as far as capture reads it."""
    return SimpleNamespace(
        num_scheduled_tokens=scheduled,
        scheduled_new_reqs=[
            SimpleNamespace(req_id=name, num_computed_tokens=count) for name, count in new.items()
        ],
        scheduled_cached_reqs=SimpleNamespace(
            req_ids=list(cached), num_computed_tokens=list(cached.values())
        ),
    )


def test_tokens_before_an_iteration_are_those_of_new_and_of_running_requests() -> None:
    output = scheduler_output({"a": 1, "b": 8}, new={"b": 16}, cached={"a": 515})
    assert computed_tokens(output) == {"a": 515, "b": 16}


def test_a_request_of_which_vllm_says_nothing_is_left_out() -> None:
    output = scheduler_output({"a": 1, "b": 8}, new={"b": 16}, cached={})
    assert computed_tokens(output) == {"b": 16}
    output.scheduled_cached_reqs = [SimpleNamespace(req_id="a")]  # of another version
    output.scheduled_new_reqs[0].num_computed_tokens = None
    assert computed_tokens(output) == {}
    assert computed_tokens(SimpleNamespace(num_scheduled_tokens={"a": 1})) == {}


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A worker of vLLM, as far as capture uses it, and the calls that it got."""
    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    one = SimpleNamespace(
        rank=0,
        parallel_config=SimpleNamespace(data_parallel_rank=0, world_size=1),
        calls=[],
    )
    one.execute_model = lambda output: one.calls.append(output.num_scheduled_tokens)
    one.profile = lambda *arguments, **keywords: one.calls.append((arguments, keywords))
    for name in ("capture_begin", "capture_end"):
        setattr(one, name, partial(getattr(WorkerExtension, name), one))
    return one


def run(worker: SimpleNamespace, *iterations: tuple[str, int, int]) -> None:
    """Iterations of one request each: its name, its tokens and those before them."""
    for name, tokens, computed in iterations:
        worker.execute_model(scheduler_output({name: tokens}, new={}, cached={name: computed}))


def lines(folder: Path) -> list[tuple[int, dict[str, int], dict[str, int]]]:
    write_steps(folder, folder, [{"rank": 0}])
    found = map(json.loads, (folder / "steps.jsonl").read_text().splitlines())
    return [(line["number"], line["requests"], line["computed"]) for line in found]


def test_steps_of_the_window_have_the_tokens_before_them(
    worker: SimpleNamespace, tmp_path: Path
) -> None:
    _install_window(worker, str(tmp_path))
    worker.capture_begin(False, 1, 2)
    run(worker, ("a/7", 8, 0), ("a/7", 1, 8), ("a/7", 1, 9), ("a/7", 1, 10))
    worker.capture_end("profiled")
    assert lines(tmp_path) == [(0, {"a": 1}, {"a": 8}), (1, {"a": 1}, {"a": 9})]


def test_a_server_notes_the_steps_of_each_recording(
    worker: SimpleNamespace, tmp_path: Path
) -> None:
    """Names are those of the workload, where they came from it."""
    for folder, computed in ((tmp_path / "first", 5), (tmp_path / "second", 50)):
        WorkerExtension.capture_follow(worker, str(folder))
        run(worker, ("before", 1, 1))
        worker.profile(True, profile_prefix=None)
        run(worker, ("cmpl-request-0-1/-0-1a2b3c4d", 4, 0), ("chatcmpl-77", 1, computed))
        worker.profile(is_start=False)
        run(worker, ("after", 1, 1))
        assert lines(folder) == [
            (0, {"request-0-1": 4}, {"request-0-1": 0}),
            (1, {"chatcmpl-77": 1}, {"chatcmpl-77": computed}),
        ]
    profiled = [call for call in worker.calls if isinstance(call, tuple)]
    assert profiled == [((True,), {"profile_prefix": None}), ((False,), {})] * 2
    assert len(worker.calls) - len(profiled) == 2 * 4  # iterations that ran


@pytest.mark.parametrize("has_it", [True, False])
def test_detailed_annotations_are_asked_for_where_vllm_has_them(
    has_it: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @dataclass
    class Old:
        profiler: str = ""

    @dataclass
    class New(Old):
        detailed_trace_annotation: bool = False

    config = ModuleType("vllm.config")
    config.ProfilerConfig = New if has_it else Old  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", ModuleType("vllm"))
    monkeypatch.setitem(sys.modules, "vllm.config", config)
    of_profiler = PyTorch().engine_arguments(ProfilerOptions(), tmp_path)
    asked = engine_arguments(EngineOptions("m"), of_profiler, model="m")
    found = with_detailed_annotation(asked)
    assert found["profiler_config"].pop("detailed_trace_annotation", False) is has_it
    assert found == asked
