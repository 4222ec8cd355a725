"""Talks to a running vLLM server over HTTP: its facts, its profiler and its completions."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from capture.drive import Chunk
from capture.errors import ServerUnusable
from capture.vllm_version import annotates_in_detail
from capture.workload import Request

if TYPE_CHECKING:
    import aiohttp

_PROFILER = {
    "profiler": "torch",
    "torch_profiler_dir": "/tmp/traces",
    "torch_profiler_with_stack": False,
    "torch_profiler_record_shapes": True,
}
_ANSWER_S = 30


class Server:
    """An open connection to a vLLM server; use it with `async with`."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.model = ""
        self._version = ""

    async def __aenter__(self) -> "Server":
        import aiohttp

        # The server may not answer for many minutes while it writes traces: no total timeout.
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_ANSWER_S),
            connector=aiohttp.TCPConnector(limit=0),
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        await self._session.close()

    async def facts(self) -> dict[str, Any]:
        """The served model and the version of vLLM.

        Raises:
            ServerUnusable: nothing answers, or it is not a vLLM server.
        """
        models = await self._get("/v1/models")
        try:
            served = models["data"][0]
            self.model = served["id"]
        except (KeyError, IndexError, TypeError):
            raise ServerUnusable(f"{self.url} serves no model; is it a vLLM server?") from None
        version = await self._get("/version")
        said = version.get("version") if isinstance(version, dict) else None
        self._version = str(said)
        return {"model": served, "version": said}

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

    async def start_profiler(self) -> None:
        """Starts the profiler on all ranks.

        Raises:
            ServerUnusable: the server was started without a profiler, or it refuses.
        """
        async with self._post("/start_profile") as answer:
            if answer.status == 404:
                raise ServerUnusable(
                    f"the server at {self.url} has no profiler; "
                    f"start it with --profiler-config '{_profiler_config(self._version)}'"
                )
            if answer.status != 200:
                said = (await answer.text())[:200]
                raise ServerUnusable(
                    f"{self.url}/start_profile failed with status {answer.status}: {said}; if "
                    f"another capture is running, curl -X POST {self.url}/stop_profile ends it"
                )

    async def follow(self, folder: Path) -> bool:
        """Asks the ranks to note their steps in a folder; False if the server cannot."""
        asked = {"method": "capture_follow", "args": [str(folder)]}
        async with self._post("/collective_rpc", json=asked) as answer:
            return bool(answer.status == 200)

    async def stop_profiler(self) -> None:
        """Stops the profiler; returns when all ranks have written their traces."""
        async with self._post("/stop_profile") as answer:
            if answer.status != 200:
                said = (await answer.text())[:200]
                raise ServerUnusable(
                    f"{self.url}/stop_profile failed with status {answer.status}: {said}"
                )

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
        # The server makes its own id of this one; the slash marks where its suffix begins.
        named = {"X-Request-Id": f"{request.request_id}/"}
        async with self._post("/v1/completions", json=body, headers=named) as answer:
            if answer.status != 200:
                said = (await answer.text())[:200]
                raise ServerUnusable(
                    f"{self.url} refused a request with status {answer.status}: {said}"
                )
            async for line in answer.content:
                text = line.decode().strip()
                if text.startswith("data: {"):
                    yield _chunk(json.loads(text.removeprefix("data: ")))

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


def _profiler_config(version: str) -> str:
    detailed = {"detailed_trace_annotation": True} if annotates_in_detail(version) else {}
    return json.dumps(_PROFILER | detailed)


def _chunk(event: dict[str, Any]) -> Chunk:
    if "error" in event:
        raise ServerUnusable(f"the server aborted a request: {event['error'].get('message')}")
    choices = event.get("choices") or [{}]
    ids = choices[0].get("token_ids") or []
    text = choices[0].get("text") or ""
    # A server that does not return token ids sends one message per token.
    return Chunk(len(ids) or int(bool(text)), ids, text, choices[0].get("finish_reason"))
