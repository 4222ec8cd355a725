"""The database of results: nothing of a folder is lost, and each number has its interval."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from written_results import BEGIN_UNIX_NS, WrittenPoint, latencies, write_results

from traceql.errors import DatabaseError, TraceqlError
from traceql.runs.experiment import experiment
from traceql.runs.experiment.experiment import load_experiments

POINT = WrittenPoint([latencies(tpot=10.0), latencies(tpot=11.0)], batch=1)


def _tpots(*milliseconds: float) -> list[dict[str, float]]:
    return [latencies(tpot=ms) for ms in milliseconds]


@pytest.mark.parametrize("counts", [True, False])
def test_energy_is_that_of_the_engines_gpus_in_the_time_of_its_requests(
    tmp_path: Path, counts: bool
) -> None:
    """400 W of GPU 0 over 1 s with the counter; without it, over 20 s."""
    seconds = 1 if counts else 20
    point = WrittenPoint([{"total_output_tokens": 100, **latencies(tpot=10.0)}], batch=1)
    folder = write_results(tmp_path / "one", [point])
    place = folder / "points" / point.path / "repeat-1"
    window = {"begin_unix_ns": BEGIN_UNIX_NS, "end_unix_ns": BEGIN_UNIX_NS + seconds * 10**9}
    (place / "metrics.json").write_text(json.dumps({"passes": {"unprofiled": window}}))
    times = [n / 4 * seconds for n in range(-1, 6)]
    watts = [9_000, 300, 350, 400, 450, 500, 9_000]  # outside of the window, of other work
    samples = [(s, 0, w) for s, w in zip(times, watts, strict=True)]
    samples += [(s, 1, 7_000) for s in times]  # a GPU that the engine does not use
    _write_telemetry(place / "telemetry.parquet", samples, counts)
    values = _telemetry(folder)
    assert {name: unit for name, (_, unit) in values.items()} == {
        "power": "W", "energy": "J", "energy_per_output_token": "J/token", "memory_used": "bytes",
        "sm_clock": "MHz", "throttled": "%",
    }  # fmt: skip
    assert {name: value for name, (value, _) in values.items()} == pytest.approx(
        {
            "power": 400, "energy": 400 * seconds, "energy_per_output_token": 4 * seconds,
            "memory_used": 5e9, "sm_clock": 1_500, "throttled": 20,
        }
    )  # fmt: skip
    # Power that is a mean of the last second says nothing of the energy of a short time.
    _write_telemetry(place / "telemetry.parquet", [(n / 10, 0, 400) for n in range(12)])
    short = window | {"end_unix_ns": BEGIN_UNIX_NS + 10**9}
    (place / "metrics.json").write_text(json.dumps({"passes": {"unprofiled": short}}))
    assert not {"power", "energy", "energy_per_output_token"} & _telemetry(folder).keys()


def _telemetry(folder: Path) -> dict[str, tuple[float, str]]:
    with experiment(folder) as found:
        rows = found.sql("SELECT metric, value, unit FROM measurement WHERE source = 'telemetry'")
        return {row["metric"]: (row["value"], row["unit"]) for row in rows.rows()}


def _write_telemetry(
    file: Path, samples: list[tuple[float, int, int]], counts: bool = False
) -> None:
    """Samples of (second, gpu, watts); those of 500 W are throttled by a power cap.

    The counter of energy goes on by 400 J in each second.
    """
    columns = {
        "unix_ns": [BEGIN_UNIX_NS + round(s * 1e9) for s, _, _ in samples],
        "gpu": [gpu for _, gpu, _ in samples],
        "uuid": [f"GPU-{gpu}" for _, gpu, _ in samples],
        "utilization_pct": [90] * len(samples),
        "memory_used_bytes": [5_000_000_000] * len(samples),
        "temperature_c": [60] * len(samples),
        "power_mw": [watts * 1_000 for _, _, watts in samples],
        "sm_clock_mhz": [1_500] * len(samples),
        "throttle_reasons": [4 if watts == 500 else 1 for _, _, watts in samples],
    }
    if counts:
        columns["energy_mj"] = [70_000_000 + round(400_000 * s) for s, _, _ in samples]
    pq.write_table(pa.table(columns), file)


def test_the_memory_of_a_gpu_is_what_vllm_logs(tmp_path: Path) -> None:
    log = """
(Worker_TP0 pid=1) INFO 11-23 15:22:42 [gpu_model_runner.py:1] Model loading took 7.65 GiB memory
(Worker_TP1 pid=2) INFO 11-23 15:22:42 [gpu_model_runner.py:1] Model loading took 7.66 GiB memory
(Worker_TP0 pid=1) INFO 11-23 15:22:42 [gpu_worker.py:1] Available KV cache memory: 100.5 GiB
(EngineCore pid=3) INFO 11-23 15:22:42 [kv_cache_utils.py:1] GPU KV cache size: 1,463,552 tokens
(Worker_TP0 pid=1) INFO 11-23 15:22:42 [x.py:1] Graph capturing finished in 5 secs, took 0.50 GiB
"""
    point = WrittenPoint(_tpots(9.0), batch=1)
    with experiment(write_results(tmp_path / "one", [point], log=log)) as found:
        (row,) = found.sql("SELECT * FROM start").rows()
    assert row["weights_bytes"] == round(7.66 * 2**30)
    assert row["kv_cache_bytes"] == round(100.5 * 2**30)
    assert row["graph_bytes"] == 2**29
    assert row["kv_cache_tokens"] == 1_463_552
    odd = f"GPU KV cache size: {'9' * 5_000} tokens\nAvailable KV cache memory: inf GiB"
    with experiment(write_results(tmp_path / "two", [point], log=odd)) as found:
        row = found.sql("SELECT COLUMNS('_bytes|_tokens') FROM start").rows()[0]
    assert set(row.values()) == {None}


def test_engines_are_called_by_their_differences(tmp_path: Path) -> None:
    first = [
        WrittenPoint(_tpots(9.0), batch=1),
        WrittenPoint(_tpots(9.0), batch=1, tp=2, ep=True),
        WrittenPoint(_tpots(9.0), batch=1, arguments={"max_num_seqs": 64}),
    ]
    write_results(tmp_path / "both" / "a", first)
    with experiment(tmp_path / "both" / "a") as found:
        alone = [row["engine"] for row in found.sql("SELECT engine FROM point").rows()]
    write_results(tmp_path / "both" / "b", [WrittenPoint(_tpots(9.0), batch=1)], model="org/moe")
    with experiment(tmp_path / "both") as found:
        together = [row["engine"] for row in found.sql("SELECT engine FROM point").rows()]
    assert alone == ["TP 1", "TP 2, EP", "TP 1, max_num_seqs=64"]
    assert together == [*(f"qwen3-8b {title}" for title in alone), "moe TP 1"]


def test_what_is_no_result_is_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    output = tmp_path / "out.duckdb"
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceqlError, match=r"has no plan\.json"):
        load_experiments([tmp_path / "empty"], output)
    with pytest.raises(TraceqlError, match="does not exist"):
        load_experiments([tmp_path / "nowhere"], output)
    missing = write_results(tmp_path / "missing", [WrittenPoint(batch=1)], repeats=2)
    with pytest.raises(TraceqlError, match="no complete repeat"):
        load_experiments([missing], output)
    assert not output.exists()
    output.write_text("no database")
    with pytest.raises(DatabaseError, match="traceql experiment load"):
        experiment(output)


def test_a_load_replaces_results_and_nothing_else(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "one", [WrittenPoint(_tpots(9.0), batch=1)])
    database, other = tmp_path / "one.duckdb", tmp_path / "text.duckdb"
    load_experiments([folder], database)
    load_experiments([folder], database)
    with experiment(database) as found:
        assert found.sql("SELECT COUNT(*) AS points FROM point").rows() == [{"points": 1}]
    other.write_text("mine")
    with pytest.raises(DatabaseError, match="not a traceql database"):
        load_experiments([folder], other)
    assert other.read_text() == "mine"


def test_the_database_has_what_the_folder_has(tmp_path: Path) -> None:
    points = [WrittenPoint(_tpots(9.0 + b, 9.5 + b), batch=b) for b in (1, 2)]
    folder, database = write_results(tmp_path / "one", points), tmp_path / "one.duckdb"
    load_experiments([folder], database)
    with experiment(folder) as of_folder, experiment(database) as of_database:
        for table in ("experiment", "point", "start", "repeat", "measurement", "point_value"):
            asked = f"FROM {table} ORDER BY ALL"
            assert of_folder.sql(asked).rows() == of_database.sql(asked).rows() != []
        with pytest.raises(TraceqlError, match="can only be read"):
            of_database.sql("DELETE FROM point")


# Damaged, odd and mixed-up results: one line or one failed repeat, never a traceback.


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Results of one point with two repeats, of which tests damage the first."""
    return write_results(tmp_path / "one", [POINT])


def place(folder: Path, file: str) -> Path:
    return folder / "points" / POINT.path / "repeat-1" / file


def change(file: Path, keys: str, value: Any) -> None:
    """Sets the value at a path of keys, "experiment.server.folder", in a JSON document."""
    document = json.loads(file.read_text())
    *parents, last = [int(key) if key.isdigit() else key for key in keys.split(".")]
    inner = document
    for key in parents:
        inner = inner[key]
    inner[last] = value
    file.write_text(json.dumps(document))


def first_repeat(folder: Path, warnings: list[str]) -> dict[str, Any]:
    with experiment(folder, warn=warnings.append) as found:
        rows = found.sql("SELECT * FROM repeat ORDER BY number").rows()
    assert [row["status"] for row in rows[1:]] == ["complete"]
    return rows[0]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("plan.limits", {"ttft_ms": float("nan")}, "cannot be used: "),
        ("plan.seed", 10**30, "cannot be used: "),
        ("points.0.requests", 10**400, "cannot be used: "),
        ("points.0.path", "../../elsewhere", "cannot be used: "),
        ("points.0.path", "tp1/\0", "cannot be used: "),
        ("schema_version", 2, "another version"),
    ],
)
def test_a_plan_with_an_odd_value_is_refused_in_one_line(
    folder: Path, key: str, value: Any, reason: str
) -> None:
    change(folder / "plan.json", key, value)
    with pytest.raises(TraceqlError, match=rf"plan\.json.*{reason}") as refused:
        experiment(folder)
    assert "\n" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "key", "value", "reason"),
    [
        ("run.json", "experiment.seconds", float("nan"), "seconds"),
        ("run.json", "status", "done", "unknown status 'done'"),
        ("run.json", "experiment.point.path", "tp2/other", "of another point: 'tp2/other'"),
        ("bench.json", "queue_times", [0, -1], "queue_times of -1 is not possible"),
        ("bench.json", "median_tpot_ms", 10**400, "is not possible"),
        ("bench.json", "median_tpot_ms", -10.0, "median_tpot_ms of -10 is not possible"),
        ("bench.json", "completed", 0, "completed of 0 is not possible"),
    ],
)
def test_an_impossible_repeat_counts_as_failed_with_a_warning(
    folder: Path, file: str, key: str, value: Any, reason: str
) -> None:
    change(place(folder, file), key, value)
    warnings: list[str] = []
    row = first_repeat(folder, warnings)
    assert row["status"] == "failed"
    assert row["reason"].startswith(f"{file}: ")
    assert reason in row["reason"]
    assert [str(place(folder, file)) in one for one in warnings] == [True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value", "column", "kept"),
    [
        ("git", {"commit": "85ac513", "dirty": True}, "commit_id", "85ac513-dirty"),
        ("versions", {"vllm": [3]}, "vllm", None),
        ("host", {"name": 5}, "host", None),
        ("experiment.server.folder", "servers/\0", "start_id", None),
        ("experiment.server.folder", "../other", "start_id", None),
    ],
)
def test_an_odd_fact_is_unknown_and_the_repeat_counts(
    folder: Path, key: str, value: Any, column: str, kept: str | None
) -> None:
    change(place(folder, "run.json"), key, value)
    row = first_repeat(folder, [])
    assert (row["status"], row[column]) == ("complete", kept)


@pytest.mark.parametrize(
    ("name", "status"),
    [("run.json", "failed"), ("bench.json", "failed"), ("telemetry.parquet", "complete")],
)
def test_a_damaged_file_costs_one_repeat_and_damaged_telemetry_nothing_else(
    folder: Path, name: str, status: str
) -> None:
    place(folder, name).write_text('{"cut')
    warnings: list[str] = []
    assert first_repeat(folder, warnings)["status"] == status
    assert [str(place(folder, name)) in one for one in warnings] == [True]


def test_what_the_plan_does_not_name_is_counted(folder: Path) -> None:
    points = folder / "points"
    for more in ("tp9/batch1", f"{POINT.path}/repeat-3", f"{POINT.path}/.draft-repeat-2"):
        (points / more).mkdir(parents=True)
    warnings: list[str] = []
    first_repeat(folder, warnings)
    assert warnings == [
        f"{points}: {what} that are not in plan.json, not loaded: 1"
        for what in ("points", "repeats")
    ]


def test_experiments_of_one_name_are_distinguished(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_results(tmp_path / name, [POINT], name="same")
    with experiment(tmp_path / "a", tmp_path / "b", tmp_path / "b" / ".." / "a") as found:
        names = [row["name"] for row in found.sql("SELECT name FROM experiment").rows()]
        titles = [row["title"] for row in found.sql("SELECT title FROM point_label").rows()]
    assert names == ["same (a)", "same (b)"]
    assert titles == ["same (a), TP 1", "same (b), TP 1"]
