"""A stand-in for a native `trace_processor_shell`: its HTTP endpoints over the bundled engine.

Answers what the official Python API asks of a shell and takes the flags it starts one with.
"""

import argparse
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from traceql.readers.trace_processor.backend import BundledBackend, api


class EngineServer(ThreadingHTTPServer):
    """One engine, shared by all connections to a port of this machine; 0 picks a free one."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        protos = api.ProtoFactory(api.PLATFORM_DELEGATE())
        backend = BundledBackend(protos)
        self.backend = backend
        self.one_at_a_time = threading.Lock()
        self.endpoints: dict[str, Callable[[bytes], Any]] = {
            "/status": lambda _: backend.status(),
            "/parse": backend.parse,
            "/notify_eof": lambda _: backend.notify_eof(),
            "/query": lambda body: backend.execute_query(
                protos.QueryArgs.FromString(body).sql_query
            ),
        }

    @property
    def address(self) -> str:
        """What the official API takes as `addr`."""
        return f"127.0.0.1:{self.server_port}"

    def server_close(self) -> None:
        """Frees the port and the engine's memory."""
        super().server_close()
        self.backend.close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # the API sends everything down one connection
    wbufsize = -1
    server: EngineServer

    def do_GET(self) -> None:
        endpoint = self.server.endpoints.get(self.path)
        if endpoint is None:
            self.send_error(404)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.server.one_at_a_time:
            message = endpoint(body)
        reply = b"" if message is None else message.SerializeToString()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving() -> Iterator[EngineServer]:
    """A server in a thread of this process."""
    with EngineServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serves until killed, as `trace_processor_shell -D --http-port N` does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-D", "--httpd", action="store_true", required=True)
    parser.add_argument("--http-port", type=int, required=True)
    parser.add_argument("--no-ftrace-raw", action="store_true")
    with EngineServer(parser.parse_args(arguments).http_port) as server:
        server.serve_forever()
