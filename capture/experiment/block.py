"""Runs a block: starts its server, measures its points one after another, and stops the server."""

import asyncio
import errno
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from capture import scheduler, worker_extension
from capture.attach import attach
from capture.engine_options import engine_variables
from capture.environment import InstalledVllm, annotates_in_detail, start_facts, variables
from capture.errors import CaptureError, PointFailed, ResultsUnusable
from capture.experiment.plan import Plan
from capture.experiment.points import Block, Point
from capture.experiment.results import (
    Results,
    read_bench,
    write_repeat,
    write_serve_results,
    write_summary,
)
from capture.experiment.vllm_processes import (
    VLLM,
    ForkServer,
    Program,
    RunningServer,
    bench_latency_arguments,
    bench_serve_arguments,
    run_program,
    running_server,
    serve_arguments,
)
from capture.profilers import PROFILERS, ProfilerOptions
from capture.server import Server
from capture.workload import KNOWN_TOKENS, drive, random_workload

_BENCH = "bench.json"
_TRACES = "traces"
_STARTS = 3  # of one block: a server that dies is started again for the points that are left
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class Done(NamedTuple):
    """A finished repeat of a point: why it failed, its time, and the start of its server."""

    block: Block
    point: Point
    reason: str | None
    seconds: float
    start_s: float | None


OnDone = Callable[[Done], None]
Warn = Callable[[str], None]


@dataclass(frozen=True)
class BlockRun:
    """A block with everything that is needed to run it, also in another process.

    The model is a folder or an id; `order` is the position of each repeat, by path of its point.
    """

    plan: Plan
    vllm: InstalledVllm
    results: Results
    block: Block
    model: str
    order: Mapping[str, int]

    def run(self, on_done: OnDone, warn: Warn) -> None:
        """Measures the points of the block; a failure is recorded, and the next point follows.

        Raises ResultsUnusable if the folder of results cannot be written any more.
        """
        fork_server = ForkServer(VLLM, self._variables())
        with disk_errors_explained(self.results.path), fork_server:
            if self.plan.bench == "latency":
                self._run_latency(fork_server, on_done, warn)
            else:
                self._run_serve(fork_server, on_done, warn)

    def _run_latency(self, fork_server: ForkServer, on_done: OnDone, warn: Warn) -> None:
        timeout_s = self.plan.start_timeout_s + self.plan.point_timeout_s
        for point in self.block.points:
            with self._recorded(point, None, on_done) as folder:
                arguments = bench_latency_arguments(point, model=self.model, file=folder / _BENCH)
                run_program(Program(arguments, timeout_s), fork_server, folder, warn)
                write_summary(read_bench(folder / _BENCH), folder)

    def _run_serve(self, fork_server: ForkServer, on_done: OnDone, warn: Warn) -> None:
        left, reason = list(self.block.points), ""
        if not self.block.is_profiled:
            fork_server.begin()
        for _ in range(_STARTS):
            started = False
            try:
                with self._server() as server:
                    started = True
                    while left:
                        point = left.pop(0)
                        with self._recorded(point, server, on_done) as folder:
                            self._measure(folder, point, server, fork_server, warn)
                        server.require_alive()
            except PointFailed as error:
                reason = str(error)
            if not left:
                return
            if not started:
                break
        self.fail(reason, on_done, left)

    def fail(self, reason: str, on_done: OnDone, points: Sequence[Point] | None = None) -> None:
        """Records points, or all of the block, as failed for one reason."""
        for point in self.block.points if points is None else points:
            with self._recorded(point, None, on_done):
                raise PointFailed(reason)

    def _server(self) -> AbstractContextManager[RunningServer]:
        folder = self.results.server(self.block.engine, self.block.repeat)
        arguments, launcher = serve_arguments(self.block.engine, self.model), list[str]()
        if self.block.is_profiled:
            tool = self.plan.record.tool
            arguments += profiler_arguments(tool, folder, self.vllm.version)
            launcher += PROFILERS[tool].command(ProfilerOptions(), folder, repeats=True)
        return running_server(
            arguments,
            folder=folder,
            port=self.plan.port,
            variables=self._variables() | {"VLLM_SERVER_DEV_MODE": "1"},
            timeout_s=self.plan.start_timeout_s,
            launcher=launcher,
        )

    def _measure(
        self,
        folder: Path,
        point: Point,
        server: RunningServer,
        fork_server: ForkServer,
        warn: Warn,
    ) -> None:
        server.reset_caches()
        if self.block.is_profiled:
            asyncio.run(profile_point(point, server, folder, self.plan, warn))
            return
        arguments = bench_serve_arguments(
            point,
            url=server.url,
            model=self.model,
            folder=folder,
            file=_BENCH,
            limits=self.plan.limits,
            seed=self.plan.seed + self.block.repeat,
        )
        program = Program(arguments, self.plan.point_timeout_s, server.require_alive)
        run_program(program, fork_server, folder, warn)
        write_serve_results(read_bench(folder / _BENCH), folder, outputs=self.plan.record.outputs)

    @contextmanager
    def _recorded(
        self, point: Point, server: RunningServer | None, on_done: OnDone
    ) -> Iterator[Path]:
        """Yields the folder of a repeat; a CaptureError of the block makes it a failed repeat."""
        begin, reason = time.monotonic(), None
        with self.results.repeat(point, self.block.repeat) as folder:
            facts = (
                {"environment": variables()}
                | start_facts()
                | {
                    "point": point.facts(),
                    "repeat": self.block.repeat,
                    "order": self.order[point.path],
                    "server": server and server.facts(self.results.path),
                }
            )
            try:
                yield folder
            except CaptureError as error:
                final = self.results.folder(point, self.block.repeat)
                reason = str(error).replace(str(folder), str(final))
            facts["seconds"] = time.monotonic() - begin
            write_repeat(folder, facts, reason, server.log if server else None)
        start_s = server.start_s if server else None
        on_done(Done(self.block, point, reason, facts["seconds"], start_s))

    def _variables(self) -> dict[str, str]:
        engine = self.block.engine
        offline = engine.dummy_weights or Path(self.model).is_dir()
        variables = engine_variables(
            self.vllm, engine.gpus, offline=offline, home=self.results.path
        )
        return variables | engine.environment


@contextmanager
def disk_errors_explained(path: Path) -> Iterator[None]:
    """Turns an OSError of the block into one line with the next step."""
    try:
        yield
    except OSError as error:
        what = "the disk is full" if error.errno in _DISK_FULL else f"{error.strerror or error}"
        raise ResultsUnusable(
            f"cannot write {error.filename or path}: {what}; fix that, then continue with --resume"
        ) from None


def profiler_arguments(tool: str, folder: Path, version: str) -> list[str]:
    """The arguments with which `vllm serve` can start and stop a profiler."""
    profiler = PROFILERS[tool]
    config = profiler.engine_arguments(ProfilerOptions(), folder / _TRACES)["profiler_config"]
    if profiler.program:
        return ["--profiler-config", json.dumps(config)]
    if annotates_in_detail(version):
        config["detailed_trace_annotation"] = True
    classes = ["--worker-extension-cls", worker_extension.QUALIFIED_NAME]
    classes += ["--scheduler-cls", scheduler.QUALIFIED_NAME]
    return ["--profiler-config", json.dumps(config), *classes]


async def profile_point(
    point: Point, server: RunningServer, folder: Path, plan: Plan, warn: Warn
) -> None:
    """Warms up a point, then sends its requests repeatedly while the profiler records."""
    workload = random_workload(
        vocab_size=KNOWN_TOKENS,
        prompts=point.requests,
        prompt_tokens=point.prompt_tokens,
        output_tokens=point.output_tokens,
        concurrency=point.in_flight,
        seed=plan.seed,
    )
    async with Server(server.url) as connection:
        await connection.facts()
        await drive(workload, connection.stream)
        server.reset_caches()
        if PROFILERS[plan.record.tool].program:  # its report is written beside the server's log
            await connection.start_profiler()
            try:
                deadline = time.monotonic() + plan.record.seconds
                while time.monotonic() < deadline:
                    await drive(workload, connection.stream)
            finally:
                await connection.stop_profiler()
            return
    attached = await attach(
        server.url,
        folder,
        seconds=plan.record.seconds,
        workload=workload,
        after_first_tokens=True,
        traces=server.folder / _TRACES,
        command=server.command,
        warn=warn,
    )
    if attached.traces_missing:
        raise PointFailed(attached.traces_missing)
