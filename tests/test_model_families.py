"""What the ledger, the checks and `traceql info` say of models with and without a known family."""

import gzip
import json
from pathlib import Path

import pytest
from command_line import output
from recordings import load_without_modules, recordings
from shared_files import shared_file

import traceql

pytestmark = pytest.mark.slow

UNKNOWN = "falconh1-graph"
ROLES = "time in layers without a role"


def loaded(name: str, folder: Path, *, configured: bool) -> Path:
    """The database of a recording, which tests only read."""

    def make(path: Path) -> None:
        (recording,) = (one for one in recordings() if one.name == name)
        load_without_modules(recording, folder, configured=configured)[0].rename(path)

    return shared_file(f"{name}-{configured}.duckdb", make)


def ledger(database: Path, check: str) -> tuple[bool | None, str]:
    with traceql.open(database) as trace:
        (row,) = trace.sql(f"SELECT ok, note FROM ledger WHERE check_name = '{check}'").rows()
    return row["ok"], row["note"]


@pytest.mark.parametrize(
    ("configured", "reason"),
    [
        (False, "the layers fit no known family"),
        (True, "no family is known for the configured model_type falcon_h1"),
    ],
)
def test_an_unknown_family_is_no_failure(tmp_path: Path, *, configured: bool, reason: str) -> None:
    database = loaded(UNKNOWN, tmp_path, configured=configured)
    ok, note = ledger(database, "model family")
    assert ok is None
    assert note == f"{reason}; roles follow from the kinds and places of kernels"
    ok, note = ledger(database, ROLES)
    assert ok is None
    assert "no family is known" in note
    with traceql.open(database) as trace:
        assert not trace.sql("SELECT check_name FROM ledger WHERE NOT ok OR note IS NULL").rows()


def test_layers_that_do_not_fit_the_configured_family_are_a_failure(tmp_path: Path) -> None:
    (recording,) = (one for one in recordings() if one.name == UNKNOWN)
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"model_type": "llama", "num_hidden_layers": recording.layers}))
    database = tmp_path / "x.duckdb"
    traceql.load(recording.path, database, model_config=config)
    ok, note = ledger(database, "model family")
    assert ok is False
    assert note.startswith("the layers do not fit the family llama of the configured model_type")


@pytest.mark.parametrize(
    ("name", "family"),
    [
        (UNKNOWN, "unknown (roles by place)"),
        ("qwen3_gptq-eager", "qwen3 (fits best)"),
    ],
)
def test_info_says_how_layers_are_known(tmp_path: Path, name: str, family: str) -> None:
    database = loaded(name, tmp_path, configured=False)
    shown = output("info", database)
    (row,) = (line for line in shown.splitlines() if "complete forward pass" in line)
    assert family in row
    assert "5 complete forward passes" in row


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "nemotronh-eager",
            "no forward pass is complete, or not every layer writes a KV cache",
        ),
        ("qwen3_gptq-eager", "no kernel writes a KV cache or a state"),
    ],
)
def test_info_says_why_no_layers_are_found(tmp_path: Path, name: str, reason: str) -> None:
    (recording,) = (one for one in recordings() if one.name == name)
    trace = json.loads(gzip.decompress(recording.path.read_bytes()))
    trace["traceEvents"] = [
        e for e in trace["traceEvents"]
        if not e["name"].startswith("module: ")
        and ("reshape_and_cache" not in e["name"] or name == "nemotronh-eager")
    ]  # fmt: skip
    file = tmp_path / "x.json"
    file.write_text(json.dumps(trace))
    traceql.load(file, tmp_path / "x.duckdb")
    assert f"No layers were found on rank 0: {reason}" in output("info", tmp_path / "x.duckdb")
