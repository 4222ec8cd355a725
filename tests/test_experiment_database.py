"""The database of results: nothing of a folder is lost, and each number has its interval."""

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from written_results import BEGIN_UNIX_NS, WrittenPoint, latencies, write_results

from traceql.errors import DatabaseError, TraceNotFound, TraceqlError
from traceql.experiment import experiment
from traceql.experiment.intervals import median_place
from traceql.experiment.load import load_experiments


def _tpots(*milliseconds: float) -> list[dict[str, float]]:
    return [latencies(tpot=ms) for ms in milliseconds]


def test_every_repeat_of_the_plan_has_a_row_whatever_became_of_it(tmp_path: Path) -> None:
    points = [
        WrittenPoint([latencies(tpot=10.0), None], batch=1),
        WrittenPoint([latencies(tpot=11.0)], batch=2),
        WrittenPoint(batch=4, tp=3, skipped="TP 3 does not divide 32 attention heads"),
    ]
    with experiment(write_results(tmp_path / "one", points, repeats=3)) as found:
        rows = found.sql("SELECT point_id, number, status, reason FROM repeat ORDER BY ALL").rows()
        left_out = found.sql("SELECT skipped_reason FROM point WHERE point_id = 2").rows()
    assert [(r["point_id"], r["number"], r["status"]) for r in rows] == [
        (0, 1, "complete"),
        (0, 2, "failed"),
        (0, 3, "missing"),
        (1, 1, "complete"),
        (1, 2, "missing"),
        (1, 3, "missing"),
    ]
    assert rows[1]["reason"] == "out of GPU memory"
    assert left_out == [{"skipped_reason": "TP 3 does not divide 32 attention heads"}]


@pytest.mark.parametrize("damaged", ["run.json", "bench.json"])
def test_a_damaged_file_makes_one_failed_repeat_and_a_warning(tmp_path: Path, damaged: str) -> None:
    point = WrittenPoint(_tpots(10.0, 11.0), batch=1)
    folder = write_results(tmp_path / "one", [point])
    (folder / "points" / point.path / "repeat-1" / damaged).write_text('{"cut')
    warnings: list[str] = []
    with experiment(folder, warn=warnings.append) as found:
        rows = found.sql("SELECT status FROM repeat ORDER BY number").rows()
        values = found.sql("SELECT repeats, median FROM point_value WHERE metric = 'tpot'").rows()
    assert [row["status"] for row in rows] == ["failed", "complete"]
    assert values == [{"repeats": 1, "median": 11e6}]
    assert [damaged in one for one in warnings] == [True]


def test_the_median_of_five_repeats_is_between_the_lowest_and_the_highest(tmp_path: Path) -> None:
    point = WrittenPoint(_tpots(12.0, 10.0, 11.0, 19.0, 10.5), batch=1)
    with experiment(write_results(tmp_path / "one", [point])) as found:
        (row,) = found.sql("SELECT * FROM point_value WHERE metric = 'tpot'").rows()
    assert (row["median"], row["low"], row["high"]) == (11e6, 10e6, 19e6)
    assert row["coverage_pct"] == 93.75  # 1 - 2 / 2**5: all five on one side of the median
    assert row["spread_pct"] == pytest.approx(100 * 9 / 11)


def test_one_repeat_has_no_interval(tmp_path: Path) -> None:
    with experiment(write_results(tmp_path / "one", [WrittenPoint(_tpots(9.0), batch=1)])) as found:
        (row,) = found.sql("SELECT * FROM point_value WHERE metric = 'tpot'").rows()
    assert row["median"] == 9e6
    assert [row[name] for name in ("low", "high", "coverage_pct", "spread_pct")] == [None] * 4


@pytest.mark.parametrize(
    ("repeats", "place", "outside"),
    # `outside`: orders of coins with fewer than `place` heads, counted on paper.
    [(1, 1, 1), (2, 1, 1), (3, 1, 1), (5, 1, 1), (6, 1, 1), (9, 2, 1 + 9), (12, 3, 1 + 12 + 66)],
)
def test_the_interval_is_the_narrowest_that_covers_95_percent(
    repeats: int, place: int, outside: int
) -> None:
    found, coverage = median_place(repeats)
    assert found == place
    assert coverage == pytest.approx(1 - 2 * outside / 2**repeats)


@pytest.mark.parametrize("repeats", [3, 5, 8, 12])
def test_intervals_cover_the_median_as_often_as_they_say(repeats: int) -> None:
    """Simulated experiments whose repeats are skewed, as latencies are."""
    draw, trials = random.Random(repeats), 20_000
    place, coverage = median_place(repeats)
    median = 2.0 ** (1 / 3)  # of a Pareto distribution with shape 3
    held = 0
    for _ in range(trials):
        values = sorted(draw.paretovariate(3) for _ in range(repeats))
        held += values[place - 1] <= median <= values[-place]
    error = (coverage * (1 - coverage) / trials) ** 0.5
    assert held / trials == pytest.approx(coverage, abs=4 * error)


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
    _write_telemetry(place / "telemetry.parquet", samples, counts=counts)
    values = _telemetry(folder)
    assert {name: unit for name, (_, unit) in values.items()} == {
        "power": "W",
        "energy": "J",
        "energy_per_output_token": "J/token",
        "memory_used": "bytes",
        "sm_clock": "MHz",
        "throttled": "%",
    }
    assert {name: value for name, (value, _) in values.items()} == pytest.approx(
        {
            "power": 400,
            "energy": 400 * seconds,
            "energy_per_output_token": 4 * seconds,
            "memory_used": 5e9,
            "sm_clock": 1_500,
            "throttled": 20,
        }
    )


def test_power_that_is_a_mean_of_the_last_second_tells_no_energy_of_a_short_time(
    tmp_path: Path,
) -> None:
    point = WrittenPoint([{"total_output_tokens": 100, **latencies(tpot=10.0)}], batch=1)
    folder = write_results(tmp_path / "one", [point])
    file = folder / "points" / point.path / "repeat-1" / "telemetry.parquet"
    _write_telemetry(file, [(n / 10, 0, 400) for n in range(-1, 12)], counts=False)
    assert not {"power", "energy", "energy_per_output_token"} & _telemetry(folder).keys()


def _telemetry(folder: Path) -> dict[str, tuple[float, str]]:
    with experiment(folder) as found:
        rows = found.sql("SELECT metric, value, unit FROM measurement WHERE source = 'telemetry'")
        return {row["metric"]: (row["value"], row["unit"]) for row in rows.rows()}


def _write_telemetry(file: Path, samples: list[tuple[float, int, int]], *, counts: bool) -> None:
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


def test_engines_are_called_by_what_tells_them_apart(tmp_path: Path) -> None:
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


def test_a_speed_up_is_a_ratio_of_medians_with_an_exact_interval(tmp_path: Path) -> None:
    points = [
        WrittenPoint(_tpots(10.0, 10.0, 10.0, 10.0, 10.0), batch=2),
        WrittenPoint(_tpots(5.0, 5.0, 5.0, 5.0, 5.0), batch=2, tp=2),
        WrittenPoint(_tpots(8.0, 8.0, 8.0, 8.0, 8.0), batch=4, tp=2),
    ]
    with experiment(write_results(tmp_path / "one", points)) as found:
        rows = found.sql("SELECT * FROM speedup WHERE metric = 'tpot' ORDER BY point_id").rows()
    assert [(r["point_id"], r["base_point_id"], r["scaling"]) for r in rows] == [
        (1, 0, "strong"),
        (2, 0, "weak"),
    ]
    assert [(r["ratio"], r["low"], r["high"]) for r in rows] == [
        (pytest.approx(2),) * 3,
        (pytest.approx(1.25),) * 3,
    ]


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


def test_a_plan_of_another_version_is_refused(tmp_path: Path) -> None:
    folder = write_results(tmp_path / "one", [WrittenPoint(_tpots(9.0), batch=1)])
    document = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps(document | {"schema_version": 2}))
    with pytest.raises(TraceqlError, match="another version"):
        experiment(folder)


def test_only_databases_of_experiments_are_opened(tmp_path: Path) -> None:
    with pytest.raises(TraceNotFound, match="does not exist"):
        experiment(tmp_path / "nowhere.duckdb")
    (tmp_path / "text.duckdb").write_text("no database")
    with pytest.raises(DatabaseError, match="traceql experiment load"):
        experiment(tmp_path / "text.duckdb")


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
