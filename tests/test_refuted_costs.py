"""Costs that the recording contradicts are not used."""

import json
import shutil
from pathlib import Path

import databases
import duckdb
import pytest

import traceql

pytestmark = pytest.mark.slow

ONE_GPU = databases.EXAMPLES / "qwen3-8b-tp1-graph"
BATCH = databases.EXAMPLES / "qwen3-8b-tp2-batch16"


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("batch") / "run.duckdb"
    return traceql.load(BATCH, file, complete=True).database


def test_a_configuration_with_more_weights_than_can_be_read_is_not_used(tmp_path: Path) -> None:
    """With twice the intermediate size, gate_up_proj would read at 1.7 times the memory's peak."""
    config = json.loads((ONE_GPU / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"intermediate_size": 24576}))
    shutil.copy(ONE_GPU / "rank0.pt.trace.json.gz", tmp_path)
    weights = "FROM ledger WHERE check_name = 'weights of the model'"
    with traceql.open(ONE_GPU) as trace:
        assert not trace.sql(weights).rows()
    with traceql.open(tmp_path) as trace:
        known = trace.sql("SELECT COUNT(*) AS n FROM cost WHERE weight_bytes > 0").rows()
        (check,) = trace.sql(weights).rows()
    assert known == [{"n": 0}]
    assert check["ok"] is False


def test_a_quantization_that_no_kernel_shows_is_not_used(tmp_path: Path) -> None:
    """All products are nvjet kernels for bf16: four in each of the 36 layers."""
    stored = {"quant_method": "awq", "bits": 4, "group_size": 128}
    config = json.loads((ONE_GPU / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"quantization_config": stored}))
    shutil.copy(ONE_GPU / "rank0.pt.trace.json.gz", tmp_path)
    with traceql.open(tmp_path) as trace:
        refuted = trace.sql("""
            SELECT missing, COUNT(DISTINCT (layer, role)) AS parts, COUNT(hbm_bytes) AS bytes,
                COUNT(dtype) AS types
            FROM cost WHERE missing NOT IN ('KV lengths', 'a formula for this role')
            GROUP BY missing
        """).rows()
        known = trace.sql("SELECT DISTINCT dtype FROM cost WHERE role = 'lm_head'").rows()
        (check,) = trace.sql("FROM ledger WHERE check_name = 'weights of the model'").rows()
    missing = "kernels of the quantization that the model configuration states"
    assert refuted == [{"missing": missing, "parts": 4 * 36, "bytes": 0, "types": 0}]
    assert known == [{"dtype": "bf16"}]
    assert check["ok"] is False
    assert "are not quantized, or in a way that kernels show" in check["note"]


def test_a_file_of_iterations_that_lost_its_first_line_is_not_used(tmp_path: Path) -> None:
    """Each line is then of the iteration after its step; the last step of each rank has none."""
    run = tmp_path / "run"
    shutil.copytree(BATCH, run)
    lines = [json.loads(text) for text in (BATCH / "steps.jsonl").read_text().splitlines()]
    moved = [line | {"number": line["number"] - 1} for line in lines if line["number"] > 0]
    (run / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in moved))
    with traceql.open(run) as trace:
        known = trace.sql("SELECT COUNT(*) AS n FROM step_tokens WHERE kv_source = 'steps.jsonl'")
        checks = trace.sql("""
            SELECT rank, value, total, ok FROM ledger
            WHERE check_name = 'times of iterations' ORDER BY rank
        """).rows()
        assert known.rows() == [{"n": 0}]
    assert checks == [{"rank": n, "value": 0, "total": 15, "ok": False} for n in (0, 1)]


def test_the_iterations_of_the_recording_are_used(batch: Path) -> None:
    """Of 16 iterations on each of two ranks, the last two have no requests."""
    with duckdb.connect(str(batch), read_only=True) as con:
        used = con.execute("SELECT COUNT(DISTINCT step_id) FROM request_step").fetchall()
        failed = con.execute("SELECT COUNT(*) FROM ledger WHERE NOT ok").fetchall()
    assert used == [(2 * (16 - 2),)]
    assert failed == [(0,)]


def test_of_a_tensor_larger_than_the_cache_only_the_rest_is_compulsory(batch: Path) -> None:
    """The activation of 7,170 tokens: 12,288 values in, 6,144 out, beside 60 MiB of L2."""
    rows = 7170
    kept = 60 * 2**20
    with duckdb.connect(str(batch), read_only=True) as con:
        found = con.execute("""
            SELECT DISTINCT cost.hbm_bytes
            FROM cost INNER JOIN step_tokens USING (step_id)
            WHERE cost.role = 'act' AND step_tokens.tokens = 7170
        """).fetchall()
    assert found == [(rows * 24576 - kept + rows * 12288 - kept,)]
