"""Requests that attack the server of `traceql ui`."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

from drills.kind import Case, Kind
from drills.outcome import Outcome, Verdict

_SECRET = b"the content of a secret file"
_TRACE = b"the trace"
_ORIGIN = "https://ui.perfetto.dev"
_HOST = "Host: HOST\r\n"
_ALLOWED = f"{_HOST}Origin: {_ORIGIN}\r\n"
_PATHS = (
    "/", "/secret", "/../secret", "/../../secret", "/..", "/.", "//", "//etc/passwd", "/etc/passwd",
    "/%2e%2e/secret", "/%2e%2e%2fsecret", "/..%2fsecret", "/..%5csecret", "/..\\secret", "\\secret",
    "/%252e%252e/secret", "/%c0%ae%c0%ae/secret", "/%00", "/TRACE%00", "/TRACE%00.html", "/TRACE/..",
    "/TRACE/../secret", "/TRACE/secret", "/x/../TRACE", "/./TRACE", "//TRACE", "/TRACE/", "TRACE",
    "/TRACE;x", "/TRACE%20", "/TRACE#x", "/FOLDER", "/FOLDER/", "/FOLDER/secret", "/FOLDER/../secret",
    "/FOLDER/%2e%2e/secret", "/~root/", "/C:/secret", "file:///etc/passwd", "/file:///etc/passwd",
    "http://evil.example/TRACE", "http://HOST/secret", "http://127.0.0.1:1/TRACE", "*", "?", "/?TRACE",
    "/index.html/../../secret", "/static/../../../../../../etc/passwd", "/.git/config", "/.env",
    "/" + "a" * 60_000, "/" + "../" * 1_000 + "etc/passwd", "/\x7f\x01", "/\x1b[31m", "/%0d%0aX-Y:1",
)  # fmt: skip
_REQUESTS: tuple[str, ...] = (
    *(f"GET {path} HTTP/1.1\r\n{_ALLOWED}\r\n" for path in _PATHS),
    # Other hosts: DNS that points a foreign name to this machine.
    *(
        f"GET /TRACE HTTP/1.1\r\nHost: {host}\r\nOrigin: {_ORIGIN}\r\n\r\n"
        for host in (
            "evil.example", "evil.example:PORT", "127.0.0.1", "localhost", "localhost:1", "[::1]:PORT",
            "0.0.0.0:PORT", "127.1:PORT", "2130706433:PORT", "127.0.0.1.evil.example:PORT", "",
            "localhost:PORT.", "localhost.:PORT", "127.0.0.1:PORT@evil.example", "LOCALHOST:PORT ,x",
        )
    ),
    # Other origins.
    *(
        f"GET /TRACE HTTP/1.1\r\n{_HOST}Origin: {origin}\r\n\r\n"
        for origin in (
            "https://evil.example", "null", "http://ui.perfetto.dev", f"{_ORIGIN}.evil.example",
            f"{_ORIGIN}:443", f"{_ORIGIN}/", "https://UI.perfetto.dev", f"{_ORIGIN} https://evil.example",
            "", "http://HOST", "https://evil-ui.perfetto.dev", f"https://evil.example, {_ORIGIN}",
        )
    ),
    # Several or no headers that decide.
    f"GET /TRACE HTTP/1.1\r\n{_HOST}Host: evil.example\r\nOrigin: {_ORIGIN}\r\n\r\n",
    f"GET /TRACE HTTP/1.1\r\nHost: evil.example\r\n{_ALLOWED}\r\n",
    f"GET /TRACE HTTP/1.1\r\nOrigin: {_ORIGIN}\r\n\r\n", f"GET /TRACE HTTP/1.0\r\nOrigin: {_ORIGIN}\r\n\r\n",
    f"GET /TRACE HTTP/1.1\r\n{_HOST}\r\n", "GET /TRACE\r\n", "GET /TRACE HTTP/0.9\r\n\r\n",
    f"GET /TRACE HTTP/1.1\r\n{_HOST}Referer: {_ORIGIN}/\r\n\r\n",
    f"GET /TRACE HTTP/1.1\r\n{_HOST}Sec-Fetch-Site: cross-site\r\n\r\n",
    f"GET /TRACE HTTP/1.1\r\n{_HOST}X-Forwarded-Host: evil.example\r\nOrigin: https://evil.example\r\n\r\n",
    # Other methods.
    *(
        f"{method} /secret HTTP/1.1\r\n{_ALLOWED}Content-Length: 0\r\n\r\n"
        for method in ("POST", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PROPFIND", "HEAD", "get", "G\x00T")
    ),
    # Preflights.
    f"OPTIONS /TRACE HTTP/1.1\r\n{_HOST}Origin: https://evil.example\r\n\r\n",
    f"OPTIONS /secret HTTP/1.1\r\n{_ALLOWED}\r\n", f"OPTIONS * HTTP/1.1\r\n{_ALLOWED}\r\n",
    f"OPTIONS /TRACE HTTP/1.1\r\nHost: evil.example\r\nOrigin: {_ORIGIN}\r\n\r\n",
    # Broken, long and doubled requests.
    "\r\n\r\n", "\x00" * 100, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "GET", "GET /", "GET / HTTP/9.9\r\n\r\n",
    "GET / HTTP/1.1.1\r\n\r\n", "GET  /  HTTP/1.1\r\n\r\n", "GET /secret HTTP/1.1\nHost: HOST\n\n",
    f"GET / HTTP/1.1\r\n{_ALLOWED}X: {'a' * 70_000}\r\n\r\n",
    f"GET / HTTP/1.1\r\n{_ALLOWED}{''.join(f'X{n}: y{chr(13)}{chr(10)}' for n in range(200))}\r\n",
    f"GET /secret HTTP/1.1\r\n{_ALLOWED} folded: x\r\n\r\n", f"GET / HTTP/1.1\r\n{_ALLOWED}NoColon\r\n\r\n",
    f"GET / HTTP/1.1\r\n{_ALLOWED}Content-Length: 44\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /secret HTTP/1.1\r\n{_ALLOWED}\r\n",
    f"GET / HTTP/1.1\r\n{_ALLOWED}Content-Length: -1\r\n\r\nGET /secret HTTP/1.1\r\n{_ALLOWED}\r\n",
    f"GET / HTTP/1.1\r\n{_ALLOWED}\r\nGET /secret HTTP/1.1\r\n{_ALLOWED}\r\n",
    f"GET / HTTP/1.1\r\n{_ALLOWED}Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    f"GET /secret HTTP/1.1\r\n{_ALLOWED}Range: bytes=0-\r\n\r\n", f"GET / HTTP/1.1\r\n{_ALLOWED}Expect: 100-continue\r\n\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)  # fmt: skip
_SITES = ("online", "offline")


def _count(_: object) -> int:
    return len(_REQUESTS) * len(_SITES)


def run(case: Case, folder: Path) -> Outcome:
    from traceql.present.ui.server import PageServer, offline_page, online_page

    site = _SITES[case.number % len(_SITES)]
    request = _REQUESTS[case.number // len(_SITES)]
    trace = folder / "run.pftrace"
    trace.write_bytes(_TRACE)
    (folder / "secret").write_bytes(_SECRET)
    with PageServer(port=0) as server:
        page = (online_page if site == "online" else offline_page)(trace, server.address, None, ())
        path = next(path for path, file in page.site.files.items() if file == trace)
        thread = threading.Thread(target=server.serve, args=(page.site,), daemon=True)
        thread.start()
        host = server.address.removeprefix("http://")
        sent = (
            request.replace("/TRACE", path).replace("TRACE ", f"{path[1:]} ").replace("HOST", host)
            .replace("PORT", str(server.server_port)).replace("FOLDER", path.split("/")[1])
        )  # fmt: skip
        port = server.server_port
        slow = socket.create_connection(("127.0.0.1", port))  # it says nothing
        answer = _asked(port, sent.encode("latin-1"))
        foreign = f"Origin: {_ORIGIN}\r\n" if site == "online" else ""
        good = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{foreign}\r\n"
        after = b"" if site == "online" and _TRACE in answer else _asked(port, good.encode())
        slow.close()
        server.stop()
    shown = request[:90]
    if _SECRET in answer or b"root:" in answer:
        return Outcome(Verdict.WRONG, f"{site}: {shown!r} read another file")
    body = answer.partition(b"\r\n\r\n")[2]
    if _TRACE in body and not _may_have_trace(request, site):
        return Outcome(Verdict.WRONG, f"{site}: {shown!r} got the trace")
    if b"evil" in answer or b"Traceback" in answer:
        return Outcome(Verdict.WRONG, f"{site}: {shown!r} was answered with {answer[:200]!r}")
    ended = site == "online" and _TRACE in body  # the server stops when the page has the trace
    if not ended and not after.endswith(_TRACE):
        return Outcome(Verdict.WRONG, f"{site}: after {shown!r} the server answers {after[:100]!r}")
    return Outcome(Verdict.RIGHT)


def _may_have_trace(request: str, site: str) -> bool:
    """The page may fetch the trace: Perfetto's from its origin, our own without or with its own."""
    if request.startswith("GET //TRACE"):  # the standard library takes two slashes for one
        return True
    own = "Origin" not in request or "Origin: http://HOST\r" in request
    hosts = request.count("Host: HOST") == 1 and "evil" not in request
    return site == "offline" and own and hosts and "Sec-Fetch-Site" not in request


def _asked(port: int, request: bytes) -> bytes:
    """All that the server answers; it has two seconds for each part."""
    parts: list[bytes] = []
    with socket.create_connection(("127.0.0.1", port), timeout=2) as connection, suppress(OSError):
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(1 << 16):
            parts.append(part)
    return b"".join(parts)


KIND = Kind("server", _count, run)
