"""Statements that try to leave the database: read or write files, load code, change settings."""

import json
import os
from pathlib import Path

from drills.command import Ended, called, forked
from drills.commands import COMMANDS as WRITERS
from drills.commands import LOADED, fill, loaded_database
from drills.judging import judged, state
from drills.kind import Case, Kind
from drills.outcome import Outcome, Verdict

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


def _count(_: object) -> int:
    return len(STATEMENTS) * len(_WAYS)


def run(case: Case, folder: Path) -> Outcome:
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
    outcome = judged(ended, place, before, written=(), disagreement=lambda: _answered(ended))
    return Outcome(outcome.verdict, f"{way}: {statement[:80]!r}: {outcome.reason}", outcome.command)


def _tried(statement: str, way: str, place: Path) -> Ended:
    if way == "sql":
        return forked(["sql", LOADED, "--", statement], place)
    if way == "query file":
        return forked(["run", "--queries", "own", "my.attack", LOADED], place)
    return called(lambda: _called(statement), ["Database.sql", statement], place)


def _called(sql: str) -> None:
    from traceql.run import Run

    secret_list = [_SECRET]  # a variable that a statement could name
    with Run(LOADED) as run:
        print(json.dumps(run.sql(sql).rows()[:100], default=str))
    del secret_list


def _answered(ended: Ended) -> str | None:
    """An answer is right if it has no effect, which `judged` has seen, and shows no file."""
    shows = (b"root:x:", b'"traceEvents"')
    return "it shows a file" if any(text in ended.out for text in shows) else None


KIND = Kind("sql", _count, run, prepare=loaded_database)
