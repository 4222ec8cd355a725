"""Attacks: SQL that tries to leave the database, and requests to the server of `traceql ui`."""

import json
import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

from drills.case import Case, Kind, Outcome, Verdict
from drills.judging import judged, state
from drills.process import Ended, called, forked
from drills.writers import COMMANDS as WRITERS
from drills.writers import LOADED, fill, loaded_database

_SECRET = "the content of a secret file"
# Every statement must be refused, or answer without the secret and without any effect.
STATEMENTS = (
    "SELECT * FROM read_text('secret.txt')", "SELECT * FROM read_blob('secret.txt')",
    "SELECT * FROM read_csv('secret.txt')", "SELECT * FROM read_csv_auto('secret.txt')",
    "SELECT * FROM read_json('rank0.json')", "SELECT * FROM read_json_objects('rank0.json')",
    "SELECT * FROM read_ndjson('rank0.json')", "SELECT * FROM read_ndjson_objects('rank0.json')",
    "SELECT * FROM read_parquet('secret.parquet')", "SELECT * FROM parquet_scan('secret.parquet')",
    "SELECT * FROM parquet_metadata('secret.parquet')", "SELECT * FROM parquet_schema('x.parquet')",
    "SELECT * FROM parquet_kv_metadata('x.parquet')", "SELECT * FROM parquet_file_metadata('x')",
    "SELECT * FROM sniff_csv('secret.txt')", "SELECT * FROM glob('*')", "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM 'secret.txt'", "SELECT * FROM 'secret.csv'", "SELECT * FROM \"secret.csv\"",
    "SELECT * FROM 'rank0.json'", "SELECT * FROM 'secret.parquet'", "FROM '/etc/passwd'",
    "FROM 'file:///etc/passwd'", "FROM 'https://example.com/x.csv'", "FROM 's3://bucket/x.parquet'",
    "FROM read_csv('https://example.com/x.csv')", "FROM read_text('/proc/self/environ')",
    "FROM read_text(['secret.txt'])", "SELECT (SELECT content FROM read_text('secret.txt'))",
    "WITH x AS (FROM read_text('secret.txt')) FROM x", "FROM query('FROM read_text(''secret.txt'')')",
    "FROM query_table('secret.csv')", "FROM query_table(['secret.csv'])",
    "SELECT getenv('DRILL_SECRET')", "SELECT getvariable('DRILL_SECRET')",
    "COPY (SELECT 1) TO 'out.csv'", "COPY (SELECT 1) TO 'out.parquet' (FORMAT parquet)",
    "COPY (SELECT 1) TO 'out.json' (FORMAT json)", "COPY (SELECT 1) TO '/dev/stdout'",
    "COPY slice TO 'out.csv'", "COPY slice FROM 'secret.csv'", "COPY (SELECT 1) TO 'd' (PARTITION_BY (1))",
    "COPY FROM DATABASE loaded TO other", "EXPORT DATABASE 'exported'", "IMPORT DATABASE 'exported'",
    "ATTACH 'other.duckdb'", "ATTACH 'other.duckdb' AS o (READ_ONLY)", "ATTACH ':memory:' AS m",
    "ATTACH 'loaded.duckdb' AS again (READ_WRITE)", "ATTACH '/etc/passwd' (TYPE sqlite)",
    "DETACH loaded", "USE memory", "INSTALL httpfs", "LOAD httpfs", "INSTALL sqlite FROM community",
    "LOAD './evil.duckdb_extension'", "FORCE INSTALL httpfs", "UPDATE EXTENSIONS",
    "INSTALL shellfs FROM 'http://example.com'", "SET enable_external_access = true",
    "SET lock_configuration = false", "RESET enable_external_access", "SET GLOBAL threads = 1",
    "SET temp_directory = '/tmp/x'", "SET home_directory = '/tmp'", "SET search_path = 'x'",
    "SET allow_unsigned_extensions = true", "SET allowed_directories = ['/']",
    "SET allowed_paths = ['/etc/passwd']", "SET log_query_path = 'log.txt'",
    "SET profiling_output = 'profile.json'", "SET enable_profiling = 'json'",
    "SET secret_directory = '/tmp'", "SET extension_directory = '/tmp'", "SET VARIABLE x = 1",
    "SET autoload_known_extensions = true", "SET disabled_filesystems = ''",
    "PRAGMA enable_external_access = true", "PRAGMA profiling_output = 'profile.json'",
    "PRAGMA database_list; COPY (SELECT 1) TO 'out.csv'", "PRAGMA enable_profiling",
    "PRAGMA import_database('exported')", "PRAGMA log_query_path = 'log.txt'", "CHECKPOINT",
    "FORCE CHECKPOINT", "VACUUM", "CREATE TABLE x AS SELECT 1", "CREATE TEMP TABLE x AS SELECT 1",
    "CREATE VIEW x AS SELECT 1", "CREATE MACRO f() AS TABLE FROM read_text('secret.txt')",
    "CREATE TEMP MACRO f() AS TABLE FROM read_text('secret.txt')", "CREATE SCHEMA x",
    "CREATE SECRET s (TYPE s3)", "CREATE PERSISTENT SECRET s (TYPE s3)", "CREATE SEQUENCE q",
    "CREATE TYPE t AS ENUM ('a')", "CREATE INDEX i ON slice (id)", "INSERT INTO slice (id) VALUES (1)",
    "UPDATE slice SET dur = 0", "DELETE FROM slice", "TRUNCATE slice", "DROP TABLE slice",
    "ALTER TABLE slice ADD COLUMN x INT", "MERGE INTO slice USING slice AS s ON FALSE WHEN MATCHED THEN DELETE",
    "SELECT 1; SELECT 2", "SELECT 1; DROP TABLE slice", "SELECT 1; COPY (SELECT 1) TO 'out.csv'",
    "PREPARE p AS COPY (SELECT 1) TO 'out.csv'", "EXECUTE p", "DEALLOCATE p", "BEGIN", "COMMIT",
    "CALL pragma_version()", "CALL force_checkpoint()", "CALL enable_logging()",
    "CALL enable_logging(storage = 'file', storage_path = 'log')", "EXPLAIN ANALYZE COPY (SELECT 1) TO 'out.csv'",
    "EXPLAIN COPY (SELECT 1) TO 'out.csv'", "SUMMARIZE 'secret.csv'", "DESCRIBE FROM 'secret.csv'",
    "SHOW TABLES FROM 'x'", "FROM duckdb_secrets()", "SELECT current_setting('home_directory')",
    "PIVOT 'secret.csv' ON content", "SELECT * FROM python_scan('x')", "FROM arrow_scan(1, 2, 3)",
    "FROM pandas_scan(1)", "FROM sys", "FROM os", "FROM trace_file", "FROM con", "FROM sql", "FROM secret_list", "FROM seq_scan('x')",
    "FROM read_duckdb('other.duckdb')", "FROM 'other.duckdb'", "FROM st_read('secret.txt')",
    "FROM sqlite_scan('x', 'y')", "FROM postgres_scan('', '', '')", "FROM which_secret('x', 's3')",
    "SELECT write_log('x')", "SELECT system('id')", "SELECT shell('id')", "", ";", "-- nothing", "\0",
    "SELECT '\x1b[31m'", "SELECT chr(27) || '[31m' AS x", "SELECT " + "(" * 5_000 + "1" + ")" * 5_000,
    "SELECT repeat('x', 10000000000)", "FROM repeat('x', 3)",
)  # fmt: skip
_WAYS = ("sql", "query file", "python")


def run_sql(case: Case, folder: Path) -> Outcome:
    statement, way = STATEMENTS[case.number // len(_WAYS)], _WAYS[case.number % len(_WAYS)]
    if "\0" in statement and way == "sql":
        statement = statement.replace("\0", "\x01")  # no argument of a command can have a NUL
    place = folder / "work"
    place.mkdir()
    fill(place, WRITERS["load"])
    for name in ("secret.txt", "secret.csv"):
        (place / name).write_text(f"content\n{_SECRET}\n")
    (place / "own").mkdir()
    (place / "own" / "my.attack.sql").write_text(f"-- One row.\n{statement}\n")
    os.environ["DRILL_SECRET"] = _SECRET
    before = state(place)
    ended = _tried(statement, way, place)
    if _SECRET.encode() in ended.out + ended.err:
        return Outcome(Verdict.WRONG, f"{way}: {statement!r} read a file or a variable")

    def wrong_answer() -> str | None:
        """An answer is right if it has no effect, which `judged` has seen, and shows no file."""
        shows = (b"root:x:", b'"traceEvents"')
        return "it shows a file" if any(text in ended.out for text in shows) else None

    outcome = judged(ended, place, before, written=(), disagreement=wrong_answer)
    return Outcome(outcome.verdict, f"{way}: {statement[:80]!r}: {outcome.reason}", outcome.command)


def _tried(statement: str, way: str, place: Path) -> Ended:
    if way == "sql":
        return forked(["sql", LOADED, "--", statement], place)
    if way == "query file":
        return forked(["run", "--queries", "own", "my.attack", LOADED], place)

    def call() -> None:
        from traceql.run import Run

        secret_list = [_SECRET]  # a variable that a statement could name
        with Run(LOADED) as run:
            print(json.dumps(run.sql(statement).rows()[:100], default=str))
        del secret_list

    return called(call, ["Run.sql", statement], place)


SQL = Kind("sql", lambda *_: len(STATEMENTS) * len(_WAYS), run_sql, prepare=loaded_database)


_SERVER_SECRET = b"the content of a secret file"
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


def run_server(case: Case, folder: Path) -> Outcome:
    from traceql.present.ui.server import PageServer, offline_page, online_page

    site = _SITES[case.number % len(_SITES)]
    request = _REQUESTS[case.number // len(_SITES)]
    trace = folder / "run.pftrace"
    trace.write_bytes(_TRACE)
    (folder / "secret").write_bytes(_SERVER_SECRET)
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
    body = answer.partition(b"\r\n\r\n")[2]
    ended = site == "online" and _TRACE in body  # the server stops when the page has the trace
    wrong = {
        "it reads another file": _SERVER_SECRET in answer or b"root:" in answer,
        "it gets the trace": _TRACE in body and not _may_have_trace(request, site),
        f"the answer is {answer[:200]!r}": b"evil" in answer or b"Traceback" in answer,
        f"the next answer is {after[:100]!r}": not ended and not after.endswith(_TRACE),
    }
    reasons = [f"{site}: {request[:90]!r}: {reason}" for reason, is_so in wrong.items() if is_so]
    return Outcome(Verdict.WRONG, reasons[0]) if reasons else Outcome(Verdict.RIGHT)


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


SERVER = Kind("server", lambda *_: len(_REQUESTS) * len(_SITES), run_server)
