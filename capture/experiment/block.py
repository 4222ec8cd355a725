"""Runs a block: starts its server, measures its points one after another, and ends the server."""

import errno
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from capture.engine_options import engine_variables
from capture.errors import CaptureError, PointFailed, ResultsUnusable
from capture.experiment.arguments import (
    VLLM,
    bench_latency_arguments,
    bench_serve_arguments,
    serve_arguments,
)
from capture.experiment.forks import Forks, Program, run_program
from capture.experiment.plan import Plan
from capture.experiment.points import Point
from capture.experiment.profiled import profile_point, profiler_arguments, profiler_wrapper
from capture.experiment.results import (
    Results,
    begun,
    read_bench,
    write_failure,
    write_repeat,
    write_serve_results,
    write_summary,
)
from capture.experiment.schedule import Block
from capture.experiment.vllm_server import RunningServer, served
from capture.versions import InstalledVllm

BENCH = "bench.json"
_STARTS = 3  # of one block: a server that dies is started again for the points that are left
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Done:
    """A repeat of a point that needs nothing more.

    Attributes:
        reason: why it failed; None if it is complete.
        seconds: how long it took.
        start_s: how long its server took to start; None if it did not.
    """

    block: Block
    point: Point
    reason: str | None
    seconds: float
    start_s: float | None


@dataclass(frozen=True)
class BlockRun:
    """A block with all that is needed to run it, also in another process.

    Attributes:
        model: a folder or an id, as vLLM takes it.
        order: the place of each repeat in the order of the experiment, by the path of its point.
    """

    plan: Plan
    vllm: InstalledVllm
    results: Results
    block: Block
    model: str
    order: Mapping[str, int]

    def run(self, tell: Callable[[Done], None], warn: Callable[[str], None]) -> None:
        """Measures the points of the block; what fails is recorded, and the next one follows.

        Raises:
            ResultsUnusable: nothing can be written any more.
        """
        with disk_told(self.results.path), Forks(VLLM, self._variables()) as forks:
            if self.plan.bench == "latency":
                self._run_alone(forks, tell, warn)
            else:
                self._run_served(forks, tell, warn)

    def _run_alone(
        self, forks: Forks, tell: Callable[[Done], None], warn: Callable[[str], None]
    ) -> None:
        timeout_s = self.plan.start_timeout_s + self.plan.point_timeout_s
        for point in self.block.points:
            with self._recorded(point, None, tell) as folder:
                arguments = bench_latency_arguments(point, model=self.model, file=folder / BENCH)
                run_program(Program(arguments, timeout_s), forks, folder, warn)
                write_summary(read_bench(folder / BENCH), folder)

    def _run_served(
        self, forks: Forks, tell: Callable[[Done], None], warn: Callable[[str], None]
    ) -> None:
        left, reason = list(self.block.points), ""
        if not self.block.is_profiled:
            forks.begin()
        for _ in range(_STARTS):
            came_up = False
            try:
                with self._server() as server:
                    came_up = True
                    while left:
                        point = left.pop(0)
                        with self._recorded(point, server, tell) as folder:
                            self._measure(folder, point, server, forks, warn)
                        server.require_alive()
            except PointFailed as error:
                reason = str(error)
            if not left:
                return
            if not came_up:
                break
        self.fail(reason, tell, left)

    def fail(
        self, reason: str, tell: Callable[[Done], None], points: Sequence[Point] | None = None
    ) -> None:
        """Records points, or all of the block, as failed for one reason."""
        for point in self.block.points if points is None else points:
            with self._recorded(point, None, tell):
                raise PointFailed(reason)

    def completed(self, point: Point) -> Done | None:
        """What is known of a repeat that another process has completed; None if it has not."""
        seconds = self.results.seconds(point, self.block.repeat)
        return None if seconds is None else Done(self.block, point, None, seconds, None)

    @contextmanager
    def _server(self) -> Iterator[RunningServer]:
        folder = self.results.server(self.block.engine, self.block.repeat)
        arguments, wrapper = serve_arguments(self.block.engine, self.model), list[str]()
        if self.block.is_profiled:
            tool = self.plan.record.tool
            arguments += profiler_arguments(tool, folder, self.vllm.version)
            wrapper = profiler_wrapper(tool, folder)
        with served(
            arguments,
            folder=folder,
            port=self.plan.port,
            variables=self._variables() | {"VLLM_SERVER_DEV_MODE": "1"},
            timeout_s=self.plan.start_timeout_s,
            wrapper=wrapper,
        ) as server:
            yield server

    def _measure(
        self,
        folder: Path,
        point: Point,
        server: RunningServer,
        forks: Forks,
        warn: Callable[[str], None],
    ) -> None:
        server.reset_caches()
        if self.block.is_profiled:
            profile_point(point, server, folder, self.plan, warn)
            return
        arguments = bench_serve_arguments(
            point,
            url=server.url,
            model=self.model,
            folder=folder,
            file=BENCH,
            limits=self.plan.limits,
            seed=self.plan.seed + self.block.repeat,
        )
        program = Program(arguments, self.plan.point_timeout_s, server.require_alive)
        run_program(program, forks, folder, warn)
        write_serve_results(read_bench(folder / BENCH), folder, outputs=self.plan.record.outputs)

    @contextmanager
    def _recorded(
        self, point: Point, server: RunningServer | None, tell: Callable[[Done], None]
    ) -> Iterator[Path]:
        """The folder of a repeat; what fails in the block makes it a failed repeat."""
        begin, reason = time.monotonic(), None
        with self.results.repeat(point, self.block.repeat) as folder:
            facts = begun() | {
                "point": point.facts(),
                "repeat": self.block.repeat,
                "order": self.order[point.path],
                "server": server and server.facts(self.results.path),
            }
            try:
                yield folder
            except CaptureError as error:
                place = self.results.folder(point, self.block.repeat)
                reason = str(error).replace(str(folder), str(place))
            facts["seconds"] = time.monotonic() - begin
            if reason is None:
                write_repeat(folder, facts)
            else:
                write_failure(folder, facts, reason, server.log if server else None)
        tell(Done(self.block, point, reason, facts["seconds"], server.start_s if server else None))

    def _variables(self) -> dict[str, str]:
        engine = self.block.engine
        offline = engine.dummy_weights or Path(self.model).is_dir()
        variables = engine_variables(
            self.vllm, engine.gpus, offline=offline, home=self.results.path
        )
        return variables | engine.environment


@contextmanager
def disk_told(path: Path) -> Iterator[None]:
    """Turns an error of writing into one line that says how to go on."""
    try:
        yield
    except OSError as error:
        what = "the disk is full" if error.errno in _FULL else f"{error.strerror or error}"
        raise ResultsUnusable(
            f"cannot write {error.filename or path}: {what}; mend that, then go on with --resume"
        ) from None
