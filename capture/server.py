"""A running vLLM server: its process, its parallel layout, its HTTP interface."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from capture.environment import annotates_in_detail
from capture.errors import ServerUnusable
from capture.workload import Chunk, Request

if TYPE_CHECKING:
    import aiohttp


_LOCAL = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})
_OPTION = "--profiler-config"
_FOLDER = "torch_profiler_dir"


class ServerProcess(NamedTuple):
    command: Sequence[str]
    folder: Path
    environment: Mapping[str, str]


def server_process(url: str) -> ServerProcess | None:
    """Command line, working folder and environment of the process that listens on a local URL.

    None if the server is on another host, or its process belongs to another user.
    """
    import psutil

    parts = urlsplit(url)
    if parts.hostname not in _LOCAL:
        return None
    port = parts.port or 80
    with suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            if _listens(connection, port) and connection.pid:
                process = psutil.Process(connection.pid)
                for parent in process.parents():  # forks of a server inherit its socket
                    if not _has_socket(parent, port):
                        break
                    process = parent
                folder = Path(process.cwd())
                return ServerProcess(list(process.cmdline()), folder, process.environ())
    return None


def _has_socket(process: Any, port: int) -> bool:
    """Whether a process listens on a port; False if its sockets belong to another user."""
    import psutil

    with suppress(psutil.Error):
        return any(_listens(one, port) for one in process.net_connections("tcp"))
    return False


def _listens(connection: Any, port: int) -> bool:
    return bool(connection.status == "LISTEN" and connection.laddr.port == port)


def trace_folder(command: list[str]) -> Path | None:
    """The folder in `--profiler-config`, in any of the forms that vLLM accepts."""
    for name, value in _options(command):
        if name == f"{_OPTION}.{_FOLDER.replace('_', '-')}":
            return Path(value)
        if name == _OPTION:
            with suppress(ValueError, TypeError, KeyError):
                return Path(json.loads(value)[_FOLDER])
    return None


def _options(command: Sequence[str]) -> list[tuple[str, str]]:
    """Each word of a command line up to `=`, and its value: after `=`, or else the next word."""
    found = []
    for argument, following in zip_longest(command, command[1:], fillvalue=""):
        name, equals, value = argument.partition("=")
        found.append((name.replace("_", "-"), value if equals else following))
    return found


_SIZE_OPTIONS = {
    "tp": ("--tensor-parallel-size", "-tp"),
    "pp": ("--pipeline-parallel-size", "-pp"),
    "dp": ("--data-parallel-size", "-dp"),
}


def parallel_layout(command: Sequence[str]) -> dict[str, Any]:
    """The sizes of the parallel groups in a command line, or {} if it does not state them."""
    options = _options(command)
    names = {name for name, _ in options}
    if not command or "--config" in names:
        return {}
    sizes = {}
    for size, spellings in _SIZE_OPTIONS.items():
        text = next((value for name, value in options if name in spellings), "") or "1"
        if not (text.isascii() and text.isdigit()):
            return {}
        sizes[size] = int(text)
    return {**sizes, "ep": not names.isdisjoint(("--enable-expert-parallel", "-ep"))}


def with_parallel_ranks(
    ranks: Sequence[dict[str, Any]], layout: dict[str, Any]
) -> list[dict[str, Any]]:
    """Adds to each rank its place in the parallel groups, in vLLM's order: tensor ranks first.

    A place that a rank already has is kept. Nothing is added if the number of ranks is not that
    of the layout.
    """
    tp, pp, dp = (layout.get(name, 0) for name in ("tp", "pp", "dp"))
    if tp * pp * dp != len(ranks):
        return list(ranks)
    return [
        {"tp_rank": n % tp, "pp_rank": n // tp % pp, "dp_rank": n // (tp * pp)} | rank
        for rank in ranks
        for n in (rank["rank"],)
    ]


def model_config(served: dict[str, Any]) -> dict[str, Any] | None:
    """The config.json of a served model, from its folder or this machine's Hugging Face cache."""
    from huggingface_hub import try_to_load_from_cache

    with suppress(OSError, ValueError, TypeError, KeyError):
        file: Any = Path(served["root"]) / "config.json"
        if not file.parent.is_dir():
            file = try_to_load_from_cache(served["root"], "config.json")
        if isinstance(file, str | Path):
            found: dict[str, Any] = json.loads(Path(file).read_text())
            return found
    return None


_PROFILER = {
    "profiler": "torch",
    "torch_profiler_dir": "/tmp/traces",
    "torch_profiler_with_stack": False,
    "torch_profiler_record_shapes": True,
}
_ANSWER_S = 30
_CONFIG = "/server_info?config_format=json"
# This format has the value of the mode instead of its name.
_GRAPH_MODES = {
    "0": "NONE", "1": "PIECEWISE", "2": "FULL", "[2, 0]": "FULL_DECODE_ONLY",
    "[2, 1]": "FULL_AND_PIECEWISE",
}  # fmt: skip


class Server:
    """An open connection to a vLLM server; use it with `async with`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.model = ""
        self._version = ""

    async def __aenter__(self) -> "Server":
        import aiohttp

        # The server may not reply for many minutes while it writes traces: no total timeout.
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_ANSWER_S),
            connector=aiohttp.TCPConnector(limit=0),
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._session.close()

    async def facts(self) -> dict[str, Any]:
        """The served model and the version of vLLM; ServerUnusable if no vLLM server answers."""
        models = await self._get("/v1/models")
        try:
            served = models["data"][0]
            self.model = served["id"]
        except (KeyError, IndexError, TypeError):
            raise ServerUnusable(f"{self.url} serves no model; is it a vLLM server?") from None
        version = await self._get("/version")
        number = version.get("version") if isinstance(version, dict) else None
        self._version = str(number)
        return {"model": served, "version": number}

    @asynccontextmanager
    async def _post(self, path: str, **sent: Any) -> AsyncIterator["aiohttp.ClientResponse"]:
        import aiohttp

        try:
            async with self._session.post(self.url + path, **sent) as answer:
                yield answer
        except (aiohttp.ClientError, ConnectionError) as error:
            raise ServerUnusable(
                f"the server at {self.url} stopped answering during {path} "
                f"({type(error).__name__}); see the server's log"
            ) from None

    async def _require_success(
        self, path: str, answer: "aiohttp.ClientResponse", hint: str = ""
    ) -> None:
        if answer.status != 200:
            text = (await answer.text())[:200]
            reason = f"{self.url}{path} failed with status {answer.status}: {text}"
            raise ServerUnusable(reason + hint)

    async def start_profiler(self) -> None:
        """Starts the profiler on all ranks; ServerUnusable if there is none."""
        async with self._post("/start_profile") as answer:
            if answer.status == 404:
                detailed = {"detailed_trace_annotation": True}
                config = _PROFILER | (detailed if annotates_in_detail(self._version) else {})
                raise ServerUnusable(
                    f"the server at {self.url} has no profiler; "
                    f"start it with --profiler-config '{json.dumps(config)}'"
                )
            hint = f"; if another capture is running, curl -X POST {self.url}/stop_profile ends it"
            await self._require_success("/start_profile", answer, hint)

    async def follow(self, folder: Path) -> bool:
        """Makes the ranks record their steps in a folder; False if the server cannot."""
        call = {"method": "capture_follow", "args": [str(folder)]}
        async with self._post("/collective_rpc", json=call) as answer:
            return bool(answer.status == 200)

    async def metrics(self) -> str:
        """The text of the metrics endpoint; empty if the server has none or does not answer."""
        return await self._text("/metrics")

    async def engine_config(self) -> dict[str, Any] | None:
        """The resolved configuration of the engine; None without VLLM_SERVER_DEV_MODE=1."""
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            config: dict[str, Any] = json.loads(await self._text(_CONFIG))["vllm_config"]
            modes = config["compilation_config"]
            modes["cudagraph_mode"] = _GRAPH_MODES.get(str(modes["cudagraph_mode"]))
            return config
        return None

    async def _text(self, path: str) -> str:
        import aiohttp

        limit = aiohttp.ClientTimeout(total=_ANSWER_S)
        with suppress(aiohttp.ClientError, TimeoutError, UnicodeDecodeError):
            async with self._session.get(self.url + path, timeout=limit) as answer:
                return await answer.text() if answer.status == 200 else ""
        return ""

    async def stop_profiler(self) -> None:
        """Stops the profiler; returns when all ranks have written their traces."""
        async with self._post("/stop_profile") as answer:
            await self._require_success("/stop_profile", answer)

    async def stream(self, request: Request) -> AsyncIterator[Chunk]:
        """Requests one greedy completion of full length and yields its chunks as they arrive."""
        body = {
            "model": self.model,
            "prompt": request.prompt if isinstance(request.prompt, str) else list(request.prompt),
            "max_tokens": request.output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "return_token_ids": True,
        }
        # The server appends a suffix to this id, after the slash.
        headers = {"X-Request-Id": f"{request.request_id}/"}
        async with self._post("/v1/completions", json=body, headers=headers) as answer:
            await self._require_success("/v1/completions", answer)
            async for line in answer.content:
                text = line.decode().strip()
                if not text.startswith("data: {"):
                    continue
                event = json.loads(text.removeprefix("data: "))
                if "error" in event:
                    reason = event["error"].get("message")
                    raise ServerUnusable(f"the server aborted a request: {reason}")
                choice = (event.get("choices") or [{}])[0]
                ids, part = choice.get("token_ids") or [], choice.get("text") or ""
                # A server that does not return token ids sends one message per token.
                yield Chunk(len(ids) or int(bool(part)), ids, part, choice.get("finish_reason"))

    async def _get(self, path: str) -> Any:
        import aiohttp

        try:
            async with self._session.get(
                self.url + path, timeout=aiohttp.ClientTimeout(total=_ANSWER_S)
            ) as answer:
                return await answer.json(content_type=None)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise ServerUnusable(
                f"no vLLM server answers at {self.url} ({type(error).__name__}); "
                "check that it is running and that this is its address"
            ) from None
