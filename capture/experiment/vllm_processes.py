"""Processes of vLLM: a server, and benchmarks in forks of one process that has imported vLLM."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple, Self

from capture.errors import PointFailed
from capture.experiment.plan import Limits
from capture.experiment.points import Engine, Point
from capture.experiment.vllm_command import FORKED
from capture.gpus import sampled
from capture.processes import (
    GRACE_S,
    adopt_orphans,
    end_process_tree,
    remove_shared_memory,
    shared_memory,
)
from capture.run_directory import write_json
from capture.supervise import explained_by_log

VLLM = (sys.executable, "-m", "capture.experiment.vllm_command")
PERCENTILES = "50,90,95,99"
_RESERVED = {
    "model": "model",
    "tensor_parallel_size": "grid.tensor_parallel",
    "pipeline_parallel_size": "grid.pipeline_parallel",
    "data_parallel_size": "grid.data_parallel",
    "enable_expert_parallel": "grid.expert_parallel",
    "load_format": "dummy_weights",
    "served_model_name": "model",
    "port": "port",
    "host": "nothing: servers of an experiment listen on this machine only",
    "profiler_config": "record",
    "worker_extension_cls": "nothing: the profiler needs it",
}


def reserved_argument(arguments: Mapping[str, Any]) -> tuple[str, str] | None:
    """An engine argument that another key of the plan sets, and a message about it."""
    for name in arguments:
        if instead := _RESERVED.get(name.replace("-", "_")):
            return name, f"engine.{name} is set by {instead}"
    return None


def engine_flags(engine: Engine) -> list[str]:
    """The flags of an engine, for a server or a benchmark that starts one."""
    sizes = {"tensor": engine.tp, "pipeline": engine.pp, "data": engine.dp}
    named: dict[str, Any] = {f"{k}_parallel_size": size for k, size in sizes.items() if size > 1}
    if engine.ep:
        named["enable_expert_parallel"] = True
    if engine.dummy_weights:
        named["load_format"] = "dummy"
    # Each benchmark sends its first prompt once before it measures, which would be a cache hit.
    named["enable_prefix_caching"] = False
    return _flags(named | engine.arguments)


def serve_arguments(engine: Engine, model: str) -> list[str]:
    """The arguments of `vllm serve`; the model is a folder or an id."""
    named = ["--served-model-name", served_name(engine.model)]
    return [model, *engine_flags(engine), *named, "--disable-uvicorn-access-log"]


def served_name(model: str) -> str:
    """The server's name for the model of a plan: its id, or the name of its folder."""
    return Path(model).resolve().name if Path(model).is_dir() else model


def bench_serve_arguments(
    point: Point, *, url: str, model: str, folder: Path, file: str, limits: Limits, seed: int
) -> list[str]:
    """The arguments of `vllm bench serve`, for a full batch of warm-up and the point itself."""
    values: dict[str, Any] = {
        "backend": "openai",
        "base-url": url,
        "endpoint": "/v1/completions",
        "model": served_name(point.engine.model),
        "tokenizer": model,
        "dataset-name": "random",
        "random-input-len": point.prompt_tokens,
        "random-output-len": point.output_tokens,
        "random-range-ratio": 0,
        "num-prompts": point.requests,
        "num-warmups": min(point.in_flight, point.requests),
        "max-concurrency": point.batch or point.concurrency,
        "request-rate": point.request_rate or "inf",
        "seed": seed,
        "temperature": 0,
        "percentile-metrics": "ttft,tpot,itl,e2el",
        "metric-percentiles": PERCENTILES,
        "result-dir": folder,
        "result-filename": file,
    }
    words = [*_flags(values), "--ignore-eos", "--save-result", "--save-detailed", "--disable-tqdm"]
    slos = {"ttft": limits.ttft_ms, "tpot": limits.tpot_ms, "e2el": limits.e2e_ms}
    goodput = [f"{name}:{value:g}" for name, value in slos.items() if value is not None]
    return ["bench", "serve", *words, *(["--goodput", *goodput] if goodput else [])]


def bench_latency_arguments(point: Point, *, model: str, file: Path) -> list[str]:
    """The arguments of `vllm bench latency`, which starts the engine itself."""
    values = {
        "model": model,
        "input-len": point.prompt_tokens,
        "output-len": point.output_tokens,
        "batch-size": point.requests,
        "output-json": file,
    }
    return ["bench", "latency", *engine_flags(point.engine), *_flags(values)]


def _flags(arguments: Mapping[str, Any]) -> list[str]:
    words = []
    for name, value in arguments.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, list):
            words += [f"--{flag}", *map(str, value)]
        elif isinstance(value, dict):
            words += [f"--{flag}", json.dumps(value)]
        elif value is not None:
            words += [f"--{flag}", str(value)]
    return words


LOG = "log.txt"
_HOST = "127.0.0.1"
_REPLY_BYTES = 16
_POLL_S = 0.1
_SERVER_POLL_S = 0.25
_SERVER_REPLY_S = 10


class _Process(NamedTuple):
    """A running fork server: its socket for commands and exit statuses, and its own output."""

    popen: "subprocess.Popen[str]"
    channel: socket.socket
    output: IO[bytes]

    def status(self, log: Path, wait_s: float) -> int | None:
        """Exit status of the command, or of this process if it has ended; None if still running."""
        self.channel.settimeout(wait_s)
        with suppress(ConnectionError):
            try:
                if reply := self.channel.recv(_REPLY_BYTES):
                    return int(reply)
            except TimeoutError:
                return None
        status = self.popen.wait()
        self.output.seek(0)
        with log.open("ab") as file:
            file.write(self.output.read())
        return status


class ForkServer:
    """Runs commands one after another in forks of one process; `with` ends the process.

    If it has ended, the next command starts another one.
    """

    def __init__(self, command: Sequence[str], variables: Mapping[str, str]) -> None:
        """Takes the command without arguments, and all environment variables."""
        self._command = [*command, FORKED]
        self._variables = variables
        self._process: _Process | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def begin(self) -> _Process:
        """Starts the process, which imports vLLM in the background; returns a running one."""
        if self._process and self._process.popen.poll() is None:
            return self._process
        self.end()
        ours, theirs = socket.socketpair()
        output = TemporaryFile()  # noqa: SIM115 - `end` closes it
        with theirs:
            popen = subprocess.Popen(
                self._command,
                stdin=theirs.fileno(),
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(self._variables),
                text=True,
                start_new_session=True,
            )
        self._process = _Process(popen, ours, output)
        return self._process

    def run(self, program: "Program", log: Path) -> int:
        """Runs a command until it ends; returns its exit status.

        Raises PointFailed if it took too long, or its check failed.
        """
        process = self.begin()
        command = {"arguments": program.arguments, "log": str(log)}
        with suppress(ConnectionError):  # the process has ended; `status` returns its exit status
            process.channel.sendall(json.dumps(command).encode() + b"\n")
        deadline = time.monotonic() + program.timeout_s
        while (status := process.status(log, _POLL_S)) is None:
            program.check()
            if time.monotonic() > deadline:
                raise PointFailed(
                    f"it took longer than {program.timeout_s:g} s; raise point_timeout_s, or lower "
                    "the number of requests"
                )
        return status

    def end(self) -> None:
        if self._process:
            end_process_tree(self._process.popen)
            self._process.channel.close()
            self._process.output.close()
            self._process = None


class Program(NamedTuple):
    """A command of vLLM; `check` raises PointFailed while it runs if it can no longer succeed."""

    arguments: Sequence[str]
    timeout_s: float
    check: Callable[[], None] = lambda: None


def run_program(
    program: Program, fork_server: ForkServer, folder: Path, warn: Callable[[str], None]
) -> None:
    """Runs a command, with its log and samples of the GPUs in a folder; PointFailed if it fails."""
    log = folder / LOG
    with sampled(folder / "telemetry.parquet", warn):
        try:
            status = fork_server.run(program, log)
        except BaseException:
            fork_server.end()
            raise
    if status:
        program.check()
        raise PointFailed(explained_by_log(f"vllm bench ended with status {status}", log))


class RunningServer(NamedTuple):
    """A server that has started, with its log and its command in a folder."""

    url: str
    process: "subprocess.Popen[str]"
    folder: Path
    command: Sequence[str]
    start_s: float

    def facts(self, results: Path) -> dict[str, Any]:
        return {
            "folder": str(self.folder.relative_to(results)),
            "command": list(self.command),
            "start_s": self.start_s,
        }

    def require_alive(self) -> None:
        if (status := self.process.poll()) is not None:
            raise PointFailed(explained_by_log(f"the server ended with status {status}", self.log))

    @property
    def log(self) -> Path:
        return self.folder / LOG

    def reset_caches(self) -> None:
        """Empties the prefix cache, so that each point starts with an empty one."""
        path = "/reset_prefix_cache"
        request = urllib.request.Request(self.url + path, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=_SERVER_REPLY_S):
                pass
        except (OSError, ValueError) as error:
            self.require_alive()
            raise PointFailed(f"{path} of the server failed: {error}") from None


@contextmanager
def running_server(
    arguments: Sequence[str],
    *,
    folder: Path,
    port: int | None,
    variables: Mapping[str, str],
    timeout_s: float,
    launcher: Sequence[str] = (),
) -> Iterator[RunningServer]:
    """Starts a server for the `with` block; ends it and all its child processes afterwards.

    Args:
        arguments: of `vllm serve`, without the port.
        port: None takes a free one.
        variables: all environment variables of the server.
        launcher: the command line of a profiler that starts the server.

    Raises:
        PointFailed: it did not start; the message says why and where the log is.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((_HOST, port or 0))
        except OSError as error:
            raise PointFailed(
                f"port {port} is in use ({error.strerror}); end the program that uses it, or "
                "leave port out of the plan"
            ) from None
        url = f"http://{_HOST}:{listener.getsockname()[1]}"
    where = ["--host", _HOST, "--port", url.rpartition(":")[2]]
    command = [*launcher, *VLLM, "serve", *arguments, *where]
    changed = {name: v for name, v in variables.items() if os.environ.get(name) != v}
    write_json(folder / "server.json", {"command": command, "environment": changed})
    before = shared_memory()
    adopt_orphans()
    begin = time.monotonic()
    with (folder / LOG).open("ab") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(variables),
            text=True,
            start_new_session=True,
        )
    try:
        server = RunningServer(url, process, folder, command, 0)
        while not _answers(server):
            if time.monotonic() - begin > timeout_s:
                raise PointFailed(
                    f"the server did not answer within {timeout_s:g} s; raise start_timeout_s, or "
                    f"see its log (log: {server.log})"
                )
            time.sleep(_SERVER_POLL_S)
        yield server._replace(start_s=time.monotonic() - begin)
    finally:
        process.terminate()
        end_process_tree(process, grace_s=GRACE_S)
        remove_shared_memory(before)


def _answers(server: RunningServer) -> bool:
    server.require_alive()
    with (
        suppress(OSError, ValueError),
        urllib.request.urlopen(f"{server.url}/health", timeout=_SERVER_REPLY_S) as reply,
    ):
        return bool(reply.status == 200)
    return False
