"""Runs commands and cases in forks of this process, which has all modules imported."""

import os
import pickle
import resource
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from drills.case import Case, Outcome, Verdict

LIMIT_S = 60
_MEMORY_BYTES = 4 << 30
PROGRAM = (sys.executable, "-P", "-m", "traceql")
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Ended:
    """How a command ended; `status` is None if it was still running after the limit."""

    arguments: Sequence[str]
    status: int | None
    out: bytes
    err: bytes

    @property
    def command(self) -> str:
        return shlex.join(["traceql", *self.arguments])


def forked(arguments: Sequence[str], folder: Path) -> Ended:
    """Runs a command in `folder`, in a fork of this process."""

    def call() -> int:
        from traceql.cli import main

        os.environ["COLUMNS"] = "160"
        sys.argv = ["traceql", *arguments]
        sys.modules["__main__"].__package__ = None  # click would name this program
        try:
            main()
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)
        return 0

    return _run(arguments, folder, call)


def called(body: Callable[[], None], label: Sequence[str], folder: Path) -> Ended:
    """Calls the library in `folder`, in a fork; a TraceqlError ends it as it ends a command."""

    def call() -> int:
        from traceql.errors import TraceqlError

        try:
            body()
        except TraceqlError as error:
            print(f"traceql: {error}", file=sys.stderr)
            return 1
        return 0

    return _run(label, folder, call)


def executed(
    arguments: Sequence[str], folder: Path, *, prepare: Callable[[], None] = lambda: None
) -> Ended:
    """Runs a command in `folder`, in a process as a user starts it, which calls `prepare` first."""

    def execute() -> int:
        prepare()
        os.execve(sys.executable, [*PROGRAM, *arguments], environment())

    return _run(arguments, folder, execute)


def environment() -> dict[str, str]:
    """That of true processes: this checkout, whatever the current folder is."""
    return os.environ | {"PYTHONPATH": str(ROOT), "COLUMNS": "160"}


def started(arguments: Sequence[str], folder: Path) -> "subprocess.Popen[bytes]":
    """A true process in a group of its own, whose output is discarded."""
    return subprocess.Popen(
        [*PROGRAM, *arguments], cwd=folder, env=environment(), stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, process_group=0,
    )  # fmt: skip


def _run(arguments: Sequence[str], folder: Path, body: Callable[[], int]) -> Ended:
    """Runs `body` in a forked process; its output goes to two files beside `folder`."""
    out, err = (folder.with_name(f"{folder.name}.{name}") for name in ("out", "err"))
    process = os.fork()
    if not process:
        os.setpgid(0, 0)
        try:
            os.chdir(folder)
            for number, path in ((1, out), (2, err)):
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(file, number)
                os.close(file)
            with open(os.devnull) as nothing:  # noqa: PTH123
                os.dup2(nothing.fileno(), 0)
            resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            status = body()
        except BaseException:
            traceback.print_exc()
            status = 1
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(status)
    until = time.monotonic() + LIMIT_S
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            found = os.waitstatus_to_exitcode(status)
            return Ended(arguments, found, out.read_bytes(), err.read_bytes())
        if time.monotonic() > until:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return Ended(arguments, None, out.read_bytes(), err.read_bytes())
        time.sleep(0.005)


_LONGEST_S = 300  # for a case with all its commands


@dataclass(frozen=True)
class _Running:
    case: Case
    process: int
    folder: Path
    until: float


def outcomes(
    cases: Iterable[Case], run: Callable[[Case, Path], Outcome], *, jobs: int
) -> Iterator[tuple[Case, Outcome]]:
    """Each case with its outcome, as they end; `jobs` run at once, each in a temporary folder."""
    left = iter(cases)
    with selectors.DefaultSelector() as selector:
        while True:
            while len(selector.get_map()) < jobs and (case := next(left, None)) is not None:
                reading, running = _started(case, run)
                selector.register(reading, selectors.EVENT_READ, running)
            if not selector.get_map():
                return
            yield from _ended(selector)


def _started(case: Case, run: Callable[[Case, Path], Outcome]) -> tuple[int, _Running]:
    folder = Path(tempfile.mkdtemp(prefix="traceql-drill-"))
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        os.close(reading)
        os.setpgid(0, 0)
        try:
            outcome = run(case, folder)
        except BaseException:
            reason = f"the drill itself failed: {traceback.format_exc()}"
            outcome = Outcome(Verdict.WRONG, reason)
        with os.fdopen(writing, "wb") as answer:
            pickle.dump(outcome, answer)
        os._exit(0)
    os.close(writing)
    return reading, _Running(case, process, folder, time.monotonic() + _LONGEST_S)


def _ended(selector: selectors.BaseSelector) -> Iterator[tuple[Case, Outcome]]:
    for key, _ in selector.select(timeout=1):
        with os.fdopen(key.fd, "rb", closefd=False) as answer:
            content = answer.read()
        died = Outcome(Verdict.WRONG, "the process of the drill died")
        yield _freed(selector, key, pickle.loads(content) if content else died)
    for key in list(selector.get_map().values()):
        if time.monotonic() > key.data.until:
            os.killpg(key.data.process, signal.SIGKILL)
            yield _freed(selector, key, Outcome(Verdict.HANG, f"longer than {_LONGEST_S} s"))


def _freed(
    selector: selectors.BaseSelector, key: selectors.SelectorKey, outcome: Outcome
) -> tuple[Case, Outcome]:
    running: _Running = key.data
    selector.unregister(key.fd)
    os.close(key.fd)
    os.waitpid(running.process, 0)
    with suppress(ProcessLookupError):
        os.killpg(running.process, signal.SIGKILL)  # what it has left running
    shutil.rmtree(running.folder, ignore_errors=True)
    return running.case, outcome
