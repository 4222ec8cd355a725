"""What the recording contradicts is taken back; what needs all costs is told only with all."""

import json
import shutil
from pathlib import Path

import databases
import duckdb
import pytest

import traceql

ONE_GPU = databases.EXAMPLES / "qwen3-8b-tp1-graph"
BATCH = databases.EXAMPLES / "qwen3-8b-tp2-batch16"


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("batch") / "run.duckdb"
    with traceql.open(BATCH) as trace:
        shutil.copy(trace.path, file)
    return file


def test_a_configuration_with_more_weights_than_can_be_read_is_not_used(tmp_path: Path) -> None:
    """With twice the intermediate size, gate_up_proj would read at 1.7 times the memory's peak."""
    config = json.loads((ONE_GPU / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"intermediate_size": 24576}))
    shutil.copy(ONE_GPU / "rank0.pt.trace.json.gz", tmp_path)
    with traceql.open(tmp_path) as trace:
        known = trace.sql("SELECT COUNT(*) AS n FROM cost WHERE weight_bytes > 0").rows()
        (check,) = trace.sql("FROM ledger WHERE check_name = 'weights of the model'").rows()
    assert known == [{"n": 0}]
    assert check["ok"] is False


def test_the_configuration_of_the_model_is_used() -> None:
    with traceql.open(ONE_GPU) as trace:
        assert not trace.sql("FROM ledger WHERE check_name = 'weights of the model'").rows()


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


def test_a_small_batch_is_told_only_if_the_cost_of_all_parts_is_known(batch: Path) -> None:
    told = "SELECT COUNT(*) FROM finding WHERE kind = 'small batch'"
    with duckdb.connect(str(batch)) as con:
        assert con.execute(told).fetchall() == [(1,)]
        con.execute("UPDATE cost SET flops = NULL, hbm_bytes = NULL WHERE role = 'down_proj'")
        assert con.execute(told).fetchall() == [(0,)]


@pytest.mark.parametrize("name", ["qwen3-8b-tp1-graph", "qwen3-8b-tp2-batch16"])
def test_no_role_is_above_the_measured_ceiling(name: str, tmp_path: Path) -> None:
    """But for short products, by 5%: the power limit slowed the longer ones that were measured."""
    peaks = Path(__file__).parent / "data" / "peaks-h200.json"
    file = traceql.load([databases.EXAMPLES / name], tmp_path / "run.duckdb", peaks=[peaks])
    with traceql.Trace(file.database) as trace:
        found = trace.sql("""
            SELECT phase, role, bound, SUM(floor_ns) / SUM(work_ns) AS share
            FROM role_time INNER JOIN step USING (step_id)
            WHERE kind = 'measured' AND floor_ns > 0
            GROUP BY ALL
        """).rows()
    assert {row["bound"] for row in found} >= {"compute", "memory"}
    above = [r for r in found if r["share"] > (1.05 if r["bound"] == "compute" else 1.0)]
    assert not above
