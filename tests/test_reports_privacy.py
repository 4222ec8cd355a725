"""The environment in a trace: no secret of it is in anything that traceql makes."""

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import duckdb
import pytest
import traces
from command_line import called
from databases import ROOT
from page_text import leave_out_pictures
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace as PerfettoTrace

import traceql
from capture.environment import variables
from capture.run_directory import write_json
from traceql.present.mcp.answers import Databases
from traceql.present.mcp.server import TOOLS, Calls
from traceql.readers.redaction import Redaction, is_secret, without_secrets
from traceql.sql.registry import definitions

CANARY = "TRACEQL_CANARY"
REPORT = ROOT.parent / "shared" / "reports" / "metadata-with-environment" / "trace.json"
DEVICES = [{"id": 0, "name": "NVIDIA H200"}]
JOB = {"rank": 0, "world_size": 1, "backend": "nccl"}
SECRETS = {
    "HF_TOKEN": CANARY,
    "AWS_SECRET_ACCESS_KEY": f"{CANARY}/with spaces",
    "DATABASE_URL": f"postgres://user:{CANARY}@host/runs",
    "nested": [{"OPENAI_API_KEY": [CANARY]}, {"auth": {"user": CANARY}}],
    "argv": ["serve", "--api-key", CANARY, f"--hf-token={CANARY}"],
    "command": f"python -m vllm --api-key {CANARY} {CANARY}",
    "header": f"Authorization: Bearer {CANARY}",
}
RUN_JSON = {
    "schema_version": 1, "status": "complete", "reason": None, "kind": "program", "model": "qwen3",
    "parallel": {"world_size": 1}, "environment": SECRETS, "command": SECRETS["command"],
    "model_config": {"num_key_value_heads": 8, "eos_token_id": 2, "weights": {"embed_tokens": "x"}},
    "ranks": [{"rank": 0, "trace": "traces/rank0.json"}],
}  # fmt: skip


def _named(kind: str, pid: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": pid, "tid": pid, "ts": 0, "args": args}


def _write(folder: Path) -> Path:
    """A run directory with canaries wherever a program can write text that is no event."""
    traces.write(
        folder / "traces" / "rank0.json",
        traces.host("aten::mm", ts=0, dur=5),
        traces.launch(ts=1, correlation=1),
        traces.kernel(ts=3, dur=4, correlation=1),
        _named("process_name", traces.PID, name=f"vllm serve --api-key {CANARY}"),
        _named("process_labels", traces.PID, labels=f"HF_TOKEN=two words {CANARY}"),
        _named("thread_name", traces.PID, name=f"redis://:{CANARY}@host/0"),
        _named("environment", traces.PID, **SECRETS),
        deviceProperties=DEVICES,
        distributedInfo=JOB | SECRETS,
        INFO=[f"token: {CANARY}", "Record counts: Out-of-range = 4"],
        metadata={"torch_version": "2.6.0", "started_by": CANARY, "env": SECRETS},
        otherData=SECRETS,
        list_of_things=[SECRETS],
        **SECRETS,
    )
    (folder / "run.json").write_text(json.dumps(RUN_JSON))
    return folder


@pytest.fixture(scope="module", params=["perfetto", "stream"])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, bytes]:
    """What each command prints and writes for the run, which is read in either way."""
    folder = tmp_path_factory.mktemp("made")
    run, database = _write(folder / "run"), folder / "run.duckdb"
    page, export, lake = folder / "page.html", folder / "run.pftrace", folder / "lake"
    commands = {
        "load": ("load", run, "-o", database, "--complete", "--reader", request.param),
        "info": ("info", database),
        "ledger": ("sql", database, "FROM ledger", "--format", "json"),
        "report": ("report", database, "-o", page),
        "export": ("export", "perfetto", database, "-o", export),
        "lake": ("lake", "add", database, "--lake", lake),
    }
    found: dict[str, bytes] = {}
    for name, command in commands.items():
        with pytest.MonkeyPatch.context() as patch:
            leave_out_pictures(patch)
            done = called(*command)
        assert done.returncode == 0, done.stderr
        found[name] = done.stdout + done.stderr
    found["database"] = database.read_bytes() + repr(list(_rows(database))).encode()
    found["report"] += page.read_bytes()
    found["export"] += b"".join(
        zlib.decompress(packet.compressed_packets) or packet.SerializeToString()
        for packet in PerfettoTrace.FromString(export.read_bytes()).packet
    )
    for file in lake.rglob("*.parquet"):
        found["lake"] += repr(duckdb.read_parquet(str(file)).fetchall()).encode()
    calls, tool = Calls(Databases([database])), {one.name: one for one in TOOLS}["sql"]
    for statement in ("SELECT metadata FROM trace", "FROM run", "FROM track", "FROM ledger"):
        answer = anyio.run(calls.answer, tool, {"statement": statement})
        found["mcp"] = found.get("mcp", b"") + json.dumps(answer, default=str).encode()
    return found


def _rows(database: Path) -> Iterator[Any]:
    """All rows of all tables: texts in a database may be compressed."""
    with traceql.open(database) as run:
        for name, one in definitions().items():
            if one.kind.is_kept:
                yield run.select(f"FROM {name}").rows()


@pytest.mark.parametrize(
    "output", ["load", "info", "ledger", "database", "report", "export", "lake", "mcp"]
)
def test_no_output_has_a_secret(made: dict[str, bytes], output: str) -> None:
    assert len(made[output]) > 50
    assert CANARY.encode() not in made[output]


def test_the_ledger_names_what_was_left_out_and_the_rest_stays(tmp_path: Path) -> None:
    database = traceql.load(_write(tmp_path / "run"), tmp_path / "run.duckdb").database
    with traceql.open(database) as run:
        checks = {row["check_name"]: row for row in run.sql("FROM ledger").rows()}
        (row,) = run.sql("SELECT metadata, document FROM trace, run").rows()
    about, document = json.loads(row["metadata"]), json.loads(row["document"])
    # At the top are 11 keys besides metadata and otherData, in which are 3 and 7 more.
    # SECRETS are 9 values and in five places; Kineto's message, three names of a track.
    for name, value, total in (
        ("keys of the metadata", 4, 21),
        ("secrets left out", 49, 49),
        ("secrets in run.json", 10, 10),
    ):
        found = checks[name]
        assert (found["value"], found["total"], found["ok"]) == (value, total, None)
    assert "started_by" in checks["keys of the metadata"]["note"]
    assert "HF_TOKEN, AWS_SECRET_ACCESS_KEY" in checks["secrets left out"]["note"]
    assert about.keys() == {"deviceProperties", "distributedInfo", "INFO", "metadata"}
    assert about["deviceProperties"] == DEVICES
    assert about["metadata"] == {"torch_version": "2.6.0"}
    assert JOB.items() <= about["distributedInfo"].items()
    assert about["distributedInfo"]["argv"] == ["serve", "--api-key", "...", "--hf-token=..."]
    assert document["model_config"] == RUN_JSON["model_config"]


def test_the_environment_of_a_harness_is_left_out(tmp_path: Path) -> None:
    if not REPORT.is_file():
        pytest.skip("no shared reports")
    with traceql.open(traceql.load(REPORT, tmp_path / "run.duckdb").database) as run:
        (found,) = run.sql("SELECT metadata FROM trace").rows()
        (row,) = run.sql("FROM ledger WHERE check_name = 'secrets left out'").rows()
        text = repr(list(_rows(tmp_path / "run.duckdb")))
    assert CANARY not in text
    assert json.loads(found["metadata"])["metadata"] == {"torch_version": "2.6.0"}
    assert (row["value"], row["ok"]) == (2, None)
    assert "EXAMPLE_TOKEN, OTHER_API_KEY" in row["note"]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN",
            "apiKey",
            "api-key",
            "AWS_ACCESS_KEY_ID",
            "PGPASSWORD",
        ),
        *("DB_PASS", "GITHUB_PAT", "Authorization", "Set-Cookie", "SENTRY_DSN", "secretAccessKey"),
        *("API_TOKENS", "X-Auth-Token", "client_credentials", "MYSQL_PWD", "ssh_private_key"),
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name)
    assert Redaction().shown({"a": [{name: CANARY}], "b": 1}) == {"a": [{}], "b": 1}
    assert without_secrets(f"run --x 1 --{name} {CANARY}") == f"run --x 1 --{name} ..."


@pytest.mark.parametrize(
    "value",
    [
        {"tokenizer": "a", "tokens": "b", "embed_tokens": "c", "versions": {"tiktoken": "0.7"}},
        {"num_key_value_heads": 8, "max_num_batched_tokens": 8192, "eos_token_id": [1, 2]},
        {"a": "thread 7 (pt_main_thread)", "b": "VLLM::Worker_TP0", "c": "/home/x/python3.12"},
        {"command": "vllm serve m --max-num-batched-tokens 8192 --tokenizer t", "on": True},
        {"url": "https://huggingface.co/a?b=c", "empty": {"token": "", "key": None, "nan": 0.0}},
        {"overrides": 'hf_overrides={"num_hidden_layers": 8}', "path": "sk-learn"},
    ],
)
def test_what_is_no_secret_stays(value: dict[str, Any]) -> None:
    redaction = Redaction()
    assert redaction.shown(value) == value
    assert redaction.secrets == []


def test_deep_metadata_is_cut_and_not_an_error(tmp_path: Path) -> None:
    deep: Any = CANARY
    for _ in range(300):
        deep = [deep]
    file = traces.write(
        tmp_path / "a.json", traces.kernel(ts=0, dur=1), distributedInfo={"a": deep}
    )
    with traceql.open(traceql.load(file, tmp_path / "run.duckdb").database) as run:
        assert CANARY not in run.sql("SELECT metadata FROM trace").rows()[0]["metadata"]


def test_capture_writes_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(tmp_path / "run.json", SECRETS | {"engine_arguments": {"hf_token": CANARY, "tp": 2}})
    text = (tmp_path / "run.json").read_text()
    assert CANARY not in text
    assert json.loads(text)["engine_arguments"]["tp"] == 2
    monkeypatch.setenv("VLLM_DATABASE_DSN", CANARY)
    assert "VLLM_DATABASE_DSN" not in variables()
