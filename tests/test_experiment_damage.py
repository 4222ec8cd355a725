"""Damaged, odd and mixed-up results: one line or one failed repeat, never a traceback."""

import json
from pathlib import Path
from typing import Any

import pytest
from written_results import WrittenPoint, latencies, write_results

from traceql.errors import TraceqlError
from traceql.runs.experiment import experiment

HUGE = 10**30
DIGITS = 10**400
POINT = WrittenPoint([latencies(tpot=10.0), latencies(tpot=11.0)], batch=1)


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
    ("key", "value"),
    [
        ("plan.limits", {"ttft_ms": float("nan")}),
        ("plan.limits", {"ttft_ms": 1e300}),
        ("plan.seed", HUGE),
        ("plan.repeats", 100_000),
        ("plan.repeats", 0),
        ("points.0.engine.tp", HUGE),
        ("points.0.engine.tp", -1),
        ("points.0.prompt_tokens", 10**18),
        ("points.0.request_rate", float("inf")),
        ("points.0.requests", DIGITS),
        ("points.0.path", "../../elsewhere"),
        ("points.0.path", "/etc"),
        ("points.0.path", "tp1/\0"),
        ("points.0.path", "tp1/" + 300 * "x"),
    ],
)
def test_a_plan_with_an_odd_value_is_refused_in_one_line(
    folder: Path, key: str, value: Any
) -> None:
    change(folder / "plan.json", key, value)
    with pytest.raises(TraceqlError, match=r"plan\.json cannot be used: ") as refused:
        experiment(folder)
    assert "\n" not in str(refused.value)


def test_a_plan_has_each_point_once(folder: Path) -> None:
    point = json.loads((folder / "plan.json").read_text())["points"][0]
    change(folder / "plan.json", "points", [point, point])
    with pytest.raises(TraceqlError, match="two points with the path"):
        experiment(folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "key", "value", "reason"),
    [
        ("run.json", "experiment.seconds", float("nan"), "seconds"),
        ("run.json", "experiment.seconds", 1e300, "seconds"),
        ("run.json", "experiment.server.start_s", 1e300, "start_s"),
        ("run.json", "experiment.order", HUGE, "order"),
        ("run.json", "start_unix_ns", 1e30, "start_unix_ns"),
        ("run.json", "status", "done", "unknown status 'done'"),
        ("run.json", "experiment.point.path", "tp2/other", "of another point: 'tp2/other'"),
        ("run.json", "experiment.repeat", 2, "of another repeat: 2"),
        ("bench.json", "ttfts", 5, "ttfts is not a list"),
        ("bench.json", "queue_times", 3, "queue_times is not a list"),
        ("bench.json", "queue_times", [0, -1], "queue_times of -1 is not possible"),
        ("bench.json", "median_tpot_ms", DIGITS, "is not possible"),
        ("bench.json", "median_tpot_ms", 1e300, "is not possible"),
        ("bench.json", "median_tpot_ms", 1e-300, "is not possible"),
        ("bench.json", "median_tpot_ms", -10.0, "median_tpot_ms of -10 is not possible"),
        ("bench.json", "median_ttft_ms", 0, "median_ttft_ms of 0 is not possible"),
        ("bench.json", "output_throughput", 0.0, "output_throughput of 0 is not possible"),
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


def test_a_changed_checkout_is_told(folder: Path) -> None:
    change(place(folder, "run.json"), "git", {"commit": "85ac513", "dirty": True})
    assert first_repeat(folder, [])["commit_id"] == "85ac513-dirty"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "value", "column"),
    [
        ("versions", {"vllm": 3}, "vllm"),
        ("versions", {"vllm": [3]}, "vllm"),
        ("versions", [], "torch"),
        ("host", {"name": 5}, "host"),
        ("host", 5, "host"),
        ("git", {"commit": {}}, "commit_id"),
        ("experiment.server.folder", "servers/\0", "start_id"),
        ("experiment.server.folder", "../other", "start_id"),
        ("experiment.server.folder", "/etc", "start_id"),
    ],
)
def test_an_odd_fact_is_unknown_and_the_repeat_counts(
    folder: Path, key: str, value: Any, column: str
) -> None:
    change(place(folder, "run.json"), key, value)
    row = first_repeat(folder, [])
    assert (row["status"], row[column]) == ("complete", None)


@pytest.mark.parametrize(
    "log",
    [
        f"GPU KV cache size: {'9' * 5_000} tokens\nModel loading took {'9' * 500} GiB memory",
        "Available KV cache memory: inf GiB\nModel loading took 1.2.3 GiB\nKV cache size: , tokens",
        "Model loading took 999999999999 GiB memory\nGraph capturing finished in 5 s, took - GiB",
    ],
)
def test_an_odd_size_in_a_log_is_unknown(tmp_path: Path, log: str) -> None:
    with experiment(write_results(tmp_path / "one", [POINT], log=log)) as found:
        row = found.sql("SELECT COLUMNS('_bytes|_tokens') FROM start").rows()[0]
    assert set(row.values()) == {None}


def test_damaged_telemetry_costs_the_telemetry_alone(folder: Path) -> None:
    file = place(folder, "telemetry.parquet")
    file.write_text("no parquet")
    warnings: list[str] = []
    assert first_repeat(folder, warnings)["status"] == "complete"
    assert [str(file) in one and "bench.json" not in one for one in warnings] == [True]


@pytest.mark.parametrize(
    ("more", "warning"),
    [
        ("tp9/batch1", "points that are not in plan.json, not loaded: 1"),
        (f"{POINT.path}/repeat-3", "repeats that are not in plan.json, not loaded: 1"),
    ],
)
def test_what_the_plan_does_not_name_is_counted(folder: Path, more: str, warning: str) -> None:
    (folder / "points" / more).mkdir(parents=True)
    (folder / "points" / POINT.path / ".draft-repeat-2").mkdir()
    warnings: list[str] = []
    first_repeat(folder, warnings)
    assert warnings == [f"{folder / 'points'}: {warning}"]


def test_experiments_of_one_name_are_told_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_results(tmp_path / name, [POINT], name="same")
    with experiment(tmp_path / "a", tmp_path / "b", tmp_path / "b" / ".." / "a") as found:
        names = [row["name"] for row in found.sql("SELECT name FROM experiment").rows()]
        titles = [row["title"] for row in found.sql("SELECT title FROM point_label").rows()]
    assert names == ["same (a)", "same (b)"]
    assert titles == ["same (a), TP 1", "same (b), TP 1"]
