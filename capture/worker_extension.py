"""Methods that capture adds to vLLM's workers through `worker_extension_cls`."""

import json
import os
import re
import socket
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from capture.scheduler import note_of

PREFIX = "module: "
_ANNOTATED = "_capture_annotated"  # set on each module whose forward is wrapped
# Placeholders for layers of other pipeline ranks, and containers, whose forward is never called.
_NEVER_CALLED = frozenset({"PPMissingLayer", "ModuleList"})


def annotate(model: Any, *, nvtx: bool = False) -> list[str]:
    """Wraps the forward of every module of a torch.nn.Module and returns the annotated names.

    The names are the model's own, so a layer has the same number on every pipeline rank. A module
    that several others share (the rotary embedding) is skipped because it has no unique name.
    The ranges are NVTX ranges for NVIDIA's tools, or those that PyTorch's profiler records.
    """
    named = list(model.named_modules(remove_duplicate=False))
    places = Counter(id(module) for _, module in named)
    names = []
    for name, module in named:
        if not name or places[id(module)] > 1 or type(module).__name__ in _NEVER_CALLED:
            continue
        if _ANNOTATED not in module.__dict__:
            _wrap(module, PREFIX + name, nvtx=nvtx)
        names.append(name)
    return names


def _wrap(module: Any, label: str, *, nvtx: bool) -> None:
    import torch

    original = module.forward
    named = torch.cuda.nvtx.range if nvtx else torch.profiler.record_function

    def forward(*args: Any, **keywords: Any) -> Any:
        with named(label):
            return original(*args, **keywords)

    module.__dict__[_ANNOTATED] = True
    module.__dict__["forward"] = forward


def computed_tokens(output: Any) -> dict[str, int]:
    """The number of tokens of each scheduled request whose keys and values exist before it.

    Tokens from the prefix cache count too. Requests without this number are left out.
    """
    new = getattr(output, "scheduled_new_reqs", ())
    before = {
        getattr(one, "req_id", None): getattr(one, "num_computed_tokens", None) for one in new
    }
    cached = getattr(output, "scheduled_cached_reqs", None)
    names, counts = getattr(cached, "req_ids", ()), getattr(cached, "num_computed_tokens", ())
    if len(names) == len(counts):
        before |= dict(zip(names, counts, strict=True))
    known = ((name, before.get(name)) for name in output.num_scheduled_tokens)
    return {name: count for name, count in known if isinstance(count, int)}


QUALIFIED_NAME = "capture.worker_extension.WorkerExtension"
WINDOW_CLOSED = "window-closed"
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)$")


class WorkerExtension:
    def capture_install(self: Any, folder: str, annotated: bool) -> None:
        """Makes a worker count its engine iterations; annotates its modules on request."""
        _install_window(self, folder)
        model = self.get_model()
        nvtx = self.profiler_config.profiler == "cuda"
        names = annotate(model, nvtx=nvtx) if annotated else []
        facts = _rank_facts(self, model) | {"annotated_modules": len(names)}
        (self.capture_rank_folder / "rank.json").write_text(json.dumps(facts))

    def capture_follow(self: Any, folder: str) -> None:
        """Writes notes about each recording of the server's own profiler to a folder."""
        if hasattr(self, "capture_window"):
            self.capture_rank_folder = _rank_folder(self, folder)
            return
        _install_window(self, folder)
        profile = self.profile

        def followed(is_start: bool = True, *arguments: Any, **keywords: Any) -> Any:
            if not is_start:
                self.capture_end("profiled")
            answer = profile(is_start, *arguments, **keywords)
            if is_start:
                self.capture_begin(False, 0, None)
            return answer

        self.profile = followed

    def capture_warm(self: Any) -> None:
        """Runs batches of many sizes, so that Triton compiles its kernels before the passes.

        Triton compiles a kernel again for another magnitude of a size, and for sizes that are not
        multiples of 16.
        """
        run = getattr(self.model_runner, "_dummy_run", None)
        if run is None or self.device.type == "cpu":
            return
        largest = self.scheduler_config.max_num_batched_tokens
        powers = [1 << n for n in range(largest.bit_length())]
        for size in sorted({size for power in powers for size in (power, power + 1)}):
            if size <= largest:
                run(size)
        _synchronize()

    def capture_begin(self: Any, profiled: bool, skip: int, steps: int | None) -> None:
        """Begins a pass whose window has `steps` iterations (None: all) after `skip`."""
        self.capture_window.begin(profiled=profiled, skip=skip, steps=steps)

    def capture_end(self: Any, name: str) -> None:
        """Ends a pass: closes the window if it is open, and writes the notes about the pass."""
        self.capture_window.close()
        notes = self.capture_window.notes()
        if not self.capture_rank_folder.is_dir():
            return  # an earlier capture followed this server, and has removed its folder
        (self.capture_rank_folder / f"{name}.json").write_text(json.dumps(notes))


def _install_window(worker: Any, folder: str) -> None:
    worker.capture_rank_folder = _rank_folder(worker, folder)
    worker.capture_window = _Window(worker)
    worker.execute_model = worker.capture_window.execute_model


def _rank_folder(worker: Any, folder: str) -> Path:
    """Creates the folder of this rank in the common folder of all ranks."""
    path = Path(folder) / f"rank{_global_rank(worker)}"
    path.mkdir(parents=True, exist_ok=True)
    return path


class _Window:
    """Counts calls of the worker's execute_model, and profiles those between two counts."""

    def __init__(self, worker: Any) -> None:
        self._worker = worker
        self._execute_model = worker.execute_model
        self.begin(profiled=False, skip=None, steps=None)

    def begin(self, *, profiled: bool, skip: int | None, steps: int | None) -> None:
        """Begins a pass; `skip` is None before the first one."""
        self._profiled, self._skip, self._steps = profiled, skip, steps
        self._count = self._write_ns = 0
        self._iterations: list[dict[str, Any]] = []  # those in the window
        self._accepted: list[tuple[int, int]] = []  # known only some steps later
        self._begin_ns: int | None = None
        self._end_ns: int | None = None
        if skip == 0:
            self._open()

    def execute_model(self, scheduler_output: Any) -> Any:
        """Replaces the worker's own method; iterations without tokens count too."""
        if self._begin_ns is None and self._count == self._skip:
            self._open()
        elif len(self._iterations) == self._steps:
            self.close()
        self._count += 1
        noted = note_of(scheduler_output)
        if noted:
            self._accepted += noted.pop("accepted", ())
        if self._begin_ns is not None and self._end_ns is None:
            iteration = {
                "begin_unix_ns": time.time_ns(),
                "scheduled": dict(scheduler_output.num_scheduled_tokens),
                "computed": computed_tokens(scheduler_output),
                "scheduler": noted,
            }
            self._iterations.append(iteration)
        return self._execute_model(scheduler_output)

    def notes(self) -> dict[str, Any]:
        """The window and its iterations; times are Unix time in ns."""
        return {
            "begin_unix_ns": self._begin_ns,
            "end_unix_ns": self._end_ns,
            "iterations": self._iterations,
            "iterations_of_pass": self._count,
            "accepted": self._accepted,
            "write_ns": self._write_ns,
        }

    def _open(self) -> None:
        _synchronize()
        if self._profiled:
            if self._worker.profiler_config.profiler == "torch":
                # Ranks of dense data-parallel engines would otherwise use the same file name.
                folder = str(self._worker.capture_rank_folder)
                self._worker.profiler_config.torch_profiler_dir = folder
            self._worker.profile(True)
        self._begin_ns = time.time_ns()

    def close(self) -> None:
        """Stops the profiler, which writes the trace; does nothing if no window is open."""
        if self._begin_ns is None or self._end_ns is not None:
            return
        _synchronize()
        self._end_ns = time.time_ns()
        if self._profiled:
            (self._worker.capture_rank_folder / WINDOW_CLOSED).touch()
            self._worker.profile(False)
            self._write_ns = time.time_ns() - self._end_ns


def _synchronize() -> None:
    """Waits for all launched kernels, so that a window has exactly those of its iterations."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _global_rank(worker: Any) -> int:
    """The rank across data-parallel engines, each of which numbers its own workers from 0."""
    parallel = worker.parallel_config
    return int(_dp_rank(parallel) * parallel.world_size + worker.rank)


def _dp_rank(parallel: Any) -> int:
    # Dense engines run as if they were the only one (rank 0), but they keep their index.
    return int(getattr(parallel, "data_parallel_index", parallel.data_parallel_rank))


def _rank_facts(worker: Any, model: Any) -> dict[str, Any]:
    from vllm.distributed import parallel_state

    layers = [
        int(found[1])
        for name, module in model.named_modules()
        if (found := _LAYER.search(name)) and type(module).__name__ != "PPMissingLayer"
    ]
    parallel, ep_rank = worker.parallel_config, None
    if parallel.enable_expert_parallel:
        with suppress(AssertionError):  # a dense model has no expert-parallel group
            ep_rank = int(parallel_state.get_ep_group().rank_in_group)
    return {
        "rank": _global_rank(worker),
        "tp_rank": parallel_state.get_tp_group().rank_in_group,
        "pp_rank": parallel_state.get_pp_group().rank_in_group,
        "dp_rank": _dp_rank(parallel),
        "ep_rank": ep_rank,
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "first_layer": min(layers, default=None),
        "layers": len(layers),
        "runner": type(worker.model_runner).__module__,
        **_device(worker),
    }


def _device(worker: Any) -> dict[str, Any]:
    import torch

    if worker.device is None or torch.device(worker.device).type != "cuda":
        return {"device": "cpu", "device_name": None, "device_uuid": None}
    properties = torch.cuda.get_device_properties(worker.device)
    return {
        "device": str(worker.device),
        "device_name": properties.name,
        "device_uuid": f"GPU-{properties.uuid}",
    }
