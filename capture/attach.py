"""Records a running vLLM server over HTTP into a run directory."""

import asyncio
import gzip
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from capture.environment import checkout, environment
from capture.gpus import sampled
from capture.metrics import metrics, write_outputs
from capture.run_directory import (
    RunDirectory,
    notes_of_steps,
    require_free,
    write_json,
    write_steps,
)
from capture.server import (
    Server,
    model_config,
    parallel_layout,
    placed,
    server_process,
    trace_folder,
)
from capture.supervise import OnPhase, ignore_phase
from capture.versions import checked, require_packages
from capture.worker_extension import QUALIFIED_NAME
from capture.workload import FirstTokens, Pass, Stream, Workload, drive, require_fitting

_NO_STEPS = (
    "the server does not note its steps: start it with VLLM_SERVER_DEV_MODE=1 in its environment, "
    "as the user who records it"
)
_RANK = re.compile(r"rank(\d+)\.\d+\.pt\.trace\.json(\.gz)?$")
_PARALLEL = re.compile(r"(?:^|_)(tp|pp|dp|ep)(\d+)(?=_)")


@dataclass(frozen=True)
class _Window:
    """How long is recorded: so many seconds, if wanted those after the first tokens."""

    seconds: float
    after_first_tokens: bool


@dataclass(frozen=True)
class Attached:
    """A run directory and the contents of its run.json.

    `traces_elsewhere` says why no traces were found; None if they are in the run directory.
    """

    path: Path
    facts: Mapping[str, Any]
    traces_elsewhere: str | None


def attach(
    url: str,
    path: Path,
    *,
    seconds: float,
    workload: Workload | None = None,
    after_first_tokens: bool = False,
    traces: Path | None = None,
    command: Sequence[str] | None = None,
    on_phase: OnPhase = ignore_phase,
    warn: Callable[[str], None] = lambda _message: None,
) -> Attached:
    """Records what a server does for some seconds.

    Args:
        workload: requests to send again and again during the recording; None records only the
            requests that the server gets from others.
        after_first_tokens: whether the seconds count from the moment when all requests in flight
            have their first token. The recording begins with the first request in any case.
        traces: the server's torch_profiler_dir; None reads it from the server's command line.
        command: that command line, with `traces`; None looks for the process of the server.

    Raises:
        ServerUnusable: there is no server, or it has no profiler; nothing is written then.
        CaptureError: another reason; the message says what is wrong and what to do.
    """
    require_packages("aiohttp", "huggingface_hub", "psutil")
    with TemporaryDirectory(prefix="traceql-") as notes:
        return asyncio.run(
            _attach(
                url,
                path,
                _Window(seconds, after_first_tokens),
                workload,
                traces,
                command,
                Path(notes),
                on_phase,
                warn,
            )
        )


async def _attach(
    url: str,
    path: Path,
    window: _Window,
    workload: Workload | None,
    traces: Path | None,
    known: Sequence[str] | None,
    notes: Path,
    on_phase: OnPhase,
    warn: Callable[[str], None],
) -> Attached:
    require_free(path)
    async with Server(url) as server:
        said = await server.facts()
        if warning := checked(said["version"] or "", "vllm").warning:
            warn(warning)
        if workload:
            longest = said["model"].get("max_model_len") or sys.maxsize
            require_fitting(workload, max_model_len=longest, vocab_size=sys.maxsize)
        command, folder = _process(url, known, traces)
        before = _traces(folder)
        facts = _server_facts(said, command, workload, window.seconds)
        follows = _is_extended(command) and await server.follow(notes)
        if _is_extended(command) and not follows:
            warn(_NO_STEPS)
        await server.start_profiler()
        try:
            directory = RunDirectory.create(path, facts)
        except BaseException:
            await server.stop_profiler()
            raise
        try:
            with sampled(directory.path / "telemetry.parquet", warn):
                measured = await _record_window(server, window, workload, facts, on_phase)
            ranks = _collected(folder, before, directory)
            if measured:
                _write_measured(directory.path, measured, facts["window"]["end_unix_ns"])
        except (Exception, asyncio.CancelledError) as error:
            directory.abandon(facts, " ".join(str(error).split()) or type(error).__name__)
            raise
        layout = parallel_layout(command or [])
        if layout.get("dp") == 1 and all(notes_of_steps(notes, r["rank"]).exists() for r in ranks):
            write_steps(directory.path, notes, ranks)
        elif follows and layout.get("dp") == 1:
            warn(f"{directory.path} has no steps.jsonl: not all ranks have noted their steps")
        facts["ranks"] = placed(ranks, layout)
        facts["parallel"] = layout | {"world_size": max((r["rank"] + 1 for r in ranks), default=0)}
        if ranks:
            directory.finish(facts)
            return Attached(directory.path, facts, None)
        where = _elsewhere(folder, url)
        directory.abandon(facts, where)
        return Attached(directory.path, facts, where)


def _process(
    url: str, known: Sequence[str] | None, traces: Path | None
) -> tuple[list[str] | None, Path | None]:
    """The server's command line, and the folder of its traces; None where it is not known."""
    if known:
        return list(known), traces
    command, started_in = server_process(url) or (None, Path())
    named = trace_folder(command) if command else None
    return command, traces or (named and started_in / named.expanduser())


def _write_measured(path: Path, measured: Pass, until_ns: int) -> None:
    write_json(path / "metrics.json", metrics(measured, None, until_ns=until_ns))
    write_outputs(path / "outputs.jsonl", measured)


async def _record_window(
    server: Server,
    window: _Window,
    workload: Workload | None,
    facts: dict[str, Any],
    on_phase: OnPhase,
) -> Pass | None:
    """Waits while the profiler records, then stops it in any case; adds the window to `facts`."""
    finished, load, answered = asyncio.Event(), None, None
    if workload:
        in_flight = min(workload.concurrency, len(workload.requests))
        answered = FirstTokens(server.stream, in_flight)
        load = asyncio.create_task(_load(answered.stream, workload, finished))
    begin_ns = time.time_ns()
    try:
        if load and answered and window.after_first_tokens:
            await _first_of(load, answered.all_there)
        await _wait(window.seconds, load, on_phase)
    finally:
        finished.set()
        facts["window"] = {"begin_unix_ns": begin_ns, "end_unix_ns": time.time_ns()}
        on_phase("write", 0, 0)
        writing = time.monotonic_ns()
        await server.stop_profiler()
        facts["write_ns"] = time.monotonic_ns() - writing
    return await load if load else None


async def _first_of(load: asyncio.Task[Pass], event: asyncio.Event) -> None:
    """Waits for the event, or for the end of the load."""
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait((load, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


async def _wait(seconds: float, load: asyncio.Task[Pass] | None, on_phase: OnPhase) -> None:
    """Waits, but not longer than the load runs: its error is raised when it is awaited."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0 and not (load and load.done()):
        on_phase("record", int(seconds - left), int(seconds))
        await asyncio.sleep(min(0.2, left))


async def _load(stream: Stream, workload: Workload, finished: asyncio.Event) -> Pass:
    """Sends the workload again and again, each time with new request ids."""
    rounds: list[Pass] = []
    while not finished.is_set():
        requests = [
            replace(request, request_id=f"{request.request_id}-{len(rounds)}")
            for request in workload.requests
        ]
        again = replace(workload, requests=requests)
        rounds.append(await drive(again, stream, stop=finished))
    answers = [answer for one in rounds for answer in one.answers]
    return Pass(answers, rounds[0].begin_ns, rounds[-1].end_ns)


def _traces(folder: Path | None) -> frozenset[Path]:
    found = folder.glob("*.pt.trace.json*") if folder and folder.is_dir() else ()
    return frozenset(found)


def _is_extended(command: list[str] | None) -> bool:
    """Whether the workers of a server have the methods of capture."""
    return any(QUALIFIED_NAME in argument for argument in command or [])


def _collected(
    folder: Path | None, before: frozenset[Path], directory: RunDirectory
) -> list[dict[str, Any]]:
    """Copies the traces that the server's ranks have written since `before`; describes the ranks.

    The API process of the server writes a trace of Python frames too. It belongs to no rank and
    is not copied.
    """
    new = sorted(file for file in _traces(folder) - before if _RANK.search(file.name))
    numbers = [int(_RANK.search(file.name)[1]) for file in new]  # type: ignore[index]
    if len(set(numbers)) < len(numbers):
        numbers = list(range(len(new)))  # each data-parallel engine numbers its ranks from 0
    ranks = []
    for number, file in zip(numbers, new, strict=True):
        target = directory.path / "traces" / f"rank{number}.pt.trace.json.gz"
        target.parent.mkdir(exist_ok=True)
        _copy_compressed(file, target)
        parallel = {f"{kind}_rank": int(n) for kind, n in _PARALLEL.findall(file.name)}
        ranks.append({"rank": number, **parallel, "trace": f"traces/{target.name}"})
    return ranks


def _copy_compressed(file: Path, target: Path) -> None:
    if file.name.endswith(".gz"):
        shutil.copyfile(file, target)
        return
    with file.open("rb") as source, gzip.open(target, "wb") as compressed:
        shutil.copyfileobj(source, compressed)


def _elsewhere(folder: Path | None, url: str) -> str:
    if folder is None:
        return (
            f"the traces were not found: the server at {url} is not on this machine, or its "
            "command line has no torch_profiler_dir; give the folder of its traces with --traces"
        )
    return f"the server wrote no traces of ranks to {folder}; see the server's log"


def _server_facts(
    said: dict[str, Any], command: list[str] | None, workload: Workload | None, seconds: float
) -> dict[str, Any]:
    return {
        "kind": "vllm-server",
        "command": shlex.join(sys.argv),
        "server_command": shlex.join(command) if command else None,
        "start_unix_ns": time.time_ns(),
        "start": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": said["model"]["id"],
        "model_config": model_config(said["model"]),
        "server": said,
        "seconds": seconds,
        "workload": workload
        and {
            "mix": workload.mix,
            "seed": workload.seed,
            "requests": len(workload.requests),
            "concurrency": workload.concurrency,
        },
        "git": checkout(),
        **environment(),
    }
