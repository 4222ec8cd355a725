"""The server of traceql ui: one run, for one page, on this machine."""

import http.client
import shutil
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from traceql.errors import TraceqlError
from traceql.present.ui.server import Page, PageServer, offline_page, online_page

PERFETTO = "https://ui.perfetto.dev"


class Client:
    """Asks a server on its port, in ways that a browser would not."""

    def __init__(self, port: int, trace: str, thread: threading.Thread) -> None:
        self.port, self.trace, self.thread = port, trace, thread

    def ask(
        self, path: str, method: str = "GET", host: str | None = None, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        """Status, content and headers; the path is sent as it is."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or f"127.0.0.1:{self.port}")
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        response = connection.getresponse()
        answer = response.status, response.read(), dict(response.headers)
        connection.close()
        return answer

    def refusal(self, path: str, method: str = "GET", host: str | None = None, **sent: str) -> int:
        """The status of an answer that says and allows nothing."""
        status, content, headers = self.ask(path, method, host, **sent)
        assert content == b""
        assert "Access-Control-Allow-Origin" not in headers
        return status


@contextmanager
def serving(page_of: Callable[..., Page], folder: Path) -> Iterator[Client]:
    """A server of a small file on any free port, until the page has it or the test ends."""
    trace = folder / "run.pftrace"
    trace.write_bytes(b"the trace")
    with PageServer(port=0) as server:
        page = page_of(trace, server.address, None, ())
        (path,) = [path for path, file in page.site.files.items() if file == trace]
        thread = threading.Thread(target=server.serve, args=(page.site,))
        thread.start()
        try:
            yield Client(server.server_port, path, thread)
        finally:
            server.stop()
            thread.join()


def asked_without_reading(client: Client) -> socket.socket:
    """A connection over which the page has asked for the trace, and has read nothing yet."""
    page = socket.create_connection(("127.0.0.1", client.port))
    head = f"Host: 127.0.0.1:{client.port}\r\nOrigin: {PERFETTO}"
    page.sendall(f"GET {client.trace} HTTP/1.1\r\n{head}\r\n\r\n".encode())
    return page


def test_the_server_waits_until_the_page_has_read_everything(tmp_path: Path) -> None:
    with serving(online_page, tmp_path) as client:
        with asked_without_reading(client) as page:
            client.thread.join(timeout=0.5)
            assert client.thread.is_alive()
            answer = b"".join(iter(lambda: page.recv(1 << 12), b""))
            assert answer.endswith(b"\r\n\r\nthe trace")
        client.thread.join(timeout=10)
        assert not client.thread.is_alive()


def test_a_page_that_breaks_off_can_ask_again(tmp_path: Path) -> None:
    with serving(online_page, tmp_path) as client:
        with asked_without_reading(client) as page:
            page.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.thread.join(timeout=0.5)
        assert client.thread.is_alive()
        assert client.ask(f"{client.trace}?again", Origin=PERFETTO)[1] == b"the trace"
        client.thread.join(timeout=10)
        assert not client.thread.is_alive()


@pytest.mark.parametrize("happens", ["deleted", "cut"])
def test_a_trace_that_goes_away_is_one_clear_line(
    happens: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "run.pftrace"
    trace.write_bytes(b"the trace")
    raised: list[str] = []

    def serve(server: PageServer, page: Page) -> None:
        try:
            server.serve(page.site)
        except TraceqlError as error:
            raised.append(str(error))

    with PageServer(port=0) as server:
        page = online_page(trace, server.address, None, ())
        (path,) = page.site.files
        thread = threading.Thread(target=serve, args=(server, page))
        thread.start()
        client = Client(server.server_port, path, thread)
        if happens == "deleted":
            trace.unlink()
            assert client.refusal(path, Origin=PERFETTO) == 404
        else:
            monkeypatch.setattr(shutil, "copyfileobj", lambda _from, to, _size: to.write(b"the"))
            with pytest.raises(http.client.IncompleteRead):
                client.ask(path, Origin=PERFETTO)
        thread.join(timeout=10)
    (line,) = raised
    assert line.startswith(str(trace))
    assert ("it was moved or deleted" if happens == "deleted" else "changed") in line


def test_a_connection_that_says_nothing_blocks_no_other(tmp_path: Path) -> None:
    with serving(online_page, tmp_path) as client:
        silent = socket.create_connection(("127.0.0.1", client.port))
        client.ask(client.trace, Origin=PERFETTO)
        client.thread.join(timeout=10)
        assert not client.thread.is_alive()
    silent.close()  # after the server


def test_browsers_may_ask_before_they_fetch_from_this_machine(tmp_path: Path) -> None:
    with serving(online_page, tmp_path) as client:
        asked = {"Access_Control_Request_Private_Network": "true"}
        status, _, headers = client.ask(client.trace, "OPTIONS", Origin=PERFETTO, **asked)
        assert status == 204
        assert headers["Access-Control-Allow-Origin"] == PERFETTO
        assert headers["Access-Control-Allow-Private-Network"] == "true"
        assert client.refusal(client.trace, "OPTIONS", Origin="https://evil.example") == 403
        assert client.refusal("/other", "OPTIONS", Origin=PERFETTO) == 403


def test_other_origins_are_refused(tmp_path: Path) -> None:
    others = ("https://evil.example", "http://ui.perfetto.dev", "null", f"{PERFETTO}.x")
    with serving(online_page, tmp_path) as client:
        for origin in others:
            assert client.refusal(client.trace, Origin=origin) == 403
        content, headers = client.ask(client.trace, Origin=PERFETTO)[1:]
        assert (content, headers["Access-Control-Allow-Origin"]) == (b"the trace", PERFETTO)
        assert "Content-Security-Policy" not in headers  # which Perfetto's page has itself
    with serving(offline_page, tmp_path) as client:
        for origin in (*others, PERFETTO):
            assert client.refusal(client.trace, Origin=origin) == 403
        for site in ("cross-site", "same-site"):
            assert client.refusal(client.trace, Sec_Fetch_Site=site) == 403
        assert client.ask(client.trace, Sec_Fetch_Site="same-origin")[1] == b"the trace"


@pytest.mark.parametrize("page_of", [online_page, offline_page])
def test_other_hosts_are_refused(page_of: Callable[..., Page], tmp_path: Path) -> None:
    """A name that an attacker's DNS points to this machine stays in the Host header."""
    origin = {"Origin": PERFETTO} if page_of is online_page else {}
    with serving(page_of, tmp_path) as client:
        port = client.port
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", "localhost:1", "[::1]"):
            assert client.refusal(client.trace, host=host, **origin) == 403
        assert client.ask(client.trace, host=f"localhost:{port}", **origin)[1] == b"the trace"


@pytest.mark.parametrize("page_of", [online_page, offline_page])
def test_other_paths_are_refused(page_of: Callable[..., Page], tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    origin = {"Origin": PERFETTO} if page_of is online_page else {}
    with serving(page_of, tmp_path) as client:
        folder, _, name = client.trace.rpartition("/")
        for path in (
            "/", "/run.pftrace", folder, f"{folder}/", f"/x{client.trace}", f"{client.trace}/x",
            f"{folder}/secret", f"{folder}/../secret", f"{folder}/%2e%2e/secret", "/../secret",
            "/../../../../etc/passwd", "/..%2f..%2f..%2fetc/passwd", "//etc/passwd", "/etc/passwd",
            f"{folder}/./{name}", f"{folder}//{name}", str(tmp_path / "secret"),
        ):  # fmt: skip
            assert client.refusal(path, **origin) == 404, path


def test_nothing_can_be_written(tmp_path: Path) -> None:
    with serving(online_page, tmp_path) as client:
        for method in ("POST", "PUT", "DELETE"):
            assert client.ask(client.trace, method, Origin=PERFETTO)[0] == 501
    assert (tmp_path / "run.pftrace").read_bytes() == b"the trace"


def test_it_listens_on_loopback_only(tmp_path: Path) -> None:
    with serving(online_page, tmp_path) as client, socket.socket() as other:
        # The port is free on every other address of the machine.
        other.bind(("127.0.0.2", client.port))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", client.port), 2)


def test_a_port_in_use_is_one_clear_line() -> None:
    with PageServer(port=0) as first, pytest.raises(TraceqlError) as refused:
        PageServer(port=first.server_port)
    assert f"port {first.server_port} is in use" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_path_of_a_trace_cannot_be_guessed(tmp_path: Path) -> None:
    pages = [online_page(tmp_path / "run.pftrace", "http://x", None, ()) for _ in range(2)]
    (first,), (second,) = (page.site.files for page in pages)
    assert first != second
    assert len(first.split("/")[1]) >= 22  # 128 bits in base64


def test_the_offline_page_has_the_user_interface(tmp_path: Path) -> None:
    with serving(offline_page, tmp_path) as client:
        status, page, headers = client.ask("/index.html")
        assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert b"Perfetto" in page
        policy = headers["Content-Security-Policy"]
        assert "default-src 'self' data: blob:;" in policy
        assert "http" not in policy  # no other host
        for _ in range(2):  # also after a reload
            status, content, headers = client.ask(client.trace)
            assert (status, content) == (200, b"the trace")
            assert headers["Content-Security-Policy"] == policy
