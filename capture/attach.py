"""Records a running vLLM server over HTTP into a run directory."""

import asyncio
import gzip
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from capture.environment import checked, require_packages, start_facts, variables
from capture.gpus import sampled
from capture.metrics import metrics, write_outputs
from capture.run_directory import (
    SCHEDULER,
    RunDirectory,
    notes_of_steps,
    one_line,
    require_free,
    write_json,
    write_scheduler,
    write_steps,
)
from capture.server import (
    Server,
    model_config,
    parallel_layout,
    server_process,
    trace_folder,
    with_parallel_ranks,
)
from capture.server_metrics import Samples, lines
from capture.supervise import OnPhase, ignore_phase
from capture.worker_extension import QUALIFIED_NAME
from capture.workload import FirstTokens, Pass, Stream, Workload, drive, require_fitting

_NO_STEPS = (
    "the server does not record its steps: start it as the user who records it, with "
    "VLLM_SERVER_DEV_MODE=1 in its environment"
)
_RANK = re.compile(r"rank(\d+)\.\d+\.pt\.trace\.json(\.gz)?$")
_PARALLEL = re.compile(r"(?:^|_)(tp|pp|dp|ep)(\d+)(?=_)")


class Attached(NamedTuple):
    """A run directory, the contents of its run.json, and why it has no traces; None if it has."""

    path: Path
    facts: Mapping[str, Any]
    traces_missing: str | None


async def attach(
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
    """Records a server for some seconds.

    Args:
        workload: requests to send repeatedly during the recording; None records only the requests
            of the server's other clients.
        after_first_tokens: whether the seconds count from the moment when all requests in flight
            have their first token. The recording begins with the first request in any case.
        traces: the server's torch_profiler_dir; None reads it from the server's command line.
        command: that command line, with `traces`; None reads it from the server's process.

    Raises:
        ServerUnusable: there is no server, or it has no profiler; nothing is written then.
        CaptureError: another reason; the message says what is wrong and what to do.
    """
    require_packages("aiohttp", "huggingface_hub", "psutil")
    require_free(path)
    with TemporaryDirectory(prefix="traceql-") as folder:
        notes = Path(folder)
        async with Server(url) as server:
            served = await server.facts()
            if warning := checked(served["version"] or "", "vllm").warning:
                warn(warning)
            if workload:
                longest = served["model"].get("max_model_len") or sys.maxsize
                require_fitting(workload, max_model_len=longest, vocab_size=sys.maxsize)
            process = server_process(url)
            server_command, trace_dir = list(command or ()), traces
            if process and not command:
                server_command = list(process.command)
                named = trace_folder(server_command)
                trace_dir = traces or (named and process.folder / named.expanduser())
            facts = {
                "kind": "vllm-server",
                "command": shlex.join(sys.argv),
                "server_command": shlex.join(server_command) if server_command else None,
                "model": served["model"]["id"],
                "model_config": model_config(served["model"]),
                "engine_config": await server.engine_config(),
                "environment": variables(process.environment) if process else None,
                "server": served,
                "seconds": seconds,
                "workload": workload and workload.facts(),
                **start_facts(),
            }
            extended = any(QUALIFIED_NAME in argument for argument in server_command)
            follows = extended and await server.follow(notes)
            if extended and not follows:
                warn(_NO_STEPS)
            before, samples = _traces(trace_dir), Samples(server.metrics)
            await server.start_profiler()
            try:
                directory = RunDirectory.create(path, facts)
            except BaseException:
                await server.stop_profiler()
                raise
            try:
                with sampled(directory.path / "telemetry.parquet", warn):
                    measured = await _record_window(
                        server, samples, seconds, after_first_tokens, workload, facts, on_phase
                    )
                ranks = _collect_traces(trace_dir, before, directory)
                if measured:
                    until_ns = facts["window"]["end_unix_ns"]
                    latencies = metrics(measured, None, until_ns=until_ns)
                    write_json(directory.path / "metrics.json", latencies)
                    write_outputs(directory.path / "outputs.jsonl", measured)
            except (Exception, asyncio.CancelledError) as error:
                directory.finish(facts, one_line(error))
                raise
        layout = parallel_layout(server_command)
        if layout.get("dp") == 1:
            if all(notes_of_steps(notes, r["rank"]).exists() for r in ranks):
                write_steps(directory.path, notes, ranks)
            elif follows:
                warn(f"{directory.path} has no steps.jsonl: not all ranks recorded their steps")
    if not (directory.path / SCHEDULER).exists():
        ranks_of_engine = layout.get("tp", 1) * layout.get("pp", 1)
        write_scheduler(directory.path, lines(samples.taken, ranks_of_engine))
    facts["ranks"] = with_parallel_ranks(ranks, layout)
    facts["parallel"] = layout | {"world_size": max((r["rank"] + 1 for r in ranks), default=0)}
    missing = None
    if not ranks:
        missing = f"the server wrote no traces of ranks to {trace_dir}; see the server's log"
        if trace_dir is None:
            missing = (
                f"the traces were not found: the server at {url} is not on this machine, or its "
                "command line has no torch_profiler_dir; give the folder of its traces with "
                "--traces"
            )
    directory.finish(facts, missing)
    return Attached(directory.path, facts, missing)


async def _record_window(
    server: Server,
    samples: Samples,
    seconds: float,
    after_first_tokens: bool,
    workload: Workload | None,
    facts: dict[str, Any],
    on_phase: OnPhase,
) -> Pass | None:
    """Waits while the profiler records, then stops it in any case; adds the window to `facts`."""
    finished, load, answered = asyncio.Event(), None, None
    if workload:
        in_flight = min(workload.concurrency, len(workload.requests))
        answered = FirstTokens(server.stream, in_flight)
        load = asyncio.create_task(_send_repeatedly(answered.stream, workload, finished))
    begin_ns = time.time_ns()
    try:
        async with samples:
            if load and answered and after_first_tokens:
                waiting = asyncio.create_task(answered.all_there.wait())
                await asyncio.wait((load, waiting), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
            deadline = time.monotonic() + seconds
            # Not longer than the load runs: its error is raised when it is awaited.
            while (left := deadline - time.monotonic()) > 0 and not (load and load.done()):
                on_phase("record", int(seconds - left), int(seconds))
                await asyncio.sleep(min(0.2, left))
    finally:
        finished.set()
        facts["window"] = {"begin_unix_ns": begin_ns, "end_unix_ns": time.time_ns()}
        on_phase("write", 0, 0)
        writing = time.monotonic_ns()
        await server.stop_profiler()
        facts["write_ns"] = time.monotonic_ns() - writing
    return await load if load else None


async def _send_repeatedly(stream: Stream, workload: Workload, finished: asyncio.Event) -> Pass:
    """Sends the workload again and again, each time with new request ids."""
    rounds: list[Pass] = []
    while not finished.is_set():
        requests = [
            request._replace(request_id=f"{request.request_id}-{len(rounds)}")
            for request in workload.requests
        ]
        again = replace(workload, requests=requests)
        rounds.append(await drive(again, stream, stop=finished))
    answers = [answer for one in rounds for answer in one.answers]
    return Pass(answers, rounds[0].begin_ns, rounds[-1].end_ns)


def _traces(folder: Path | None) -> frozenset[Path]:
    found = folder.glob("*.pt.trace.json*") if folder and folder.is_dir() else ()
    return frozenset(found)


def _collect_traces(
    folder: Path | None, before: frozenset[Path], directory: RunDirectory
) -> list[dict[str, Any]]:
    """Copies the traces that the server's ranks wrote after `before`; returns the ranks.

    The trace of Python frames that the API process writes belongs to no rank.
    """
    new = sorted(file for file in _traces(folder) - before if _RANK.search(file.name))
    numbers = [int(_RANK.search(file.name)[1]) for file in new]  # type: ignore[index]
    if len(set(numbers)) < len(numbers):
        numbers = list(range(len(new)))  # each data-parallel engine numbers its ranks from 0
    ranks = []
    for number, file in zip(numbers, new, strict=True):
        target = directory.path / "traces" / f"rank{number}.pt.trace.json.gz"
        target.parent.mkdir(exist_ok=True)
        if file.name.endswith(".gz"):
            shutil.copyfile(file, target)
        else:
            with file.open("rb") as source, gzip.open(target, "wb") as compressed:
                shutil.copyfileobj(source, compressed)
        parallel = {f"{kind}_rank": int(n) for kind, n in _PARALLEL.findall(file.name)}
        ranks.append({"rank": number, **parallel, "trace": f"traces/{target.name}"})
    return ranks
