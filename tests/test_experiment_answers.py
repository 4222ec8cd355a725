"""Answers of experiments: each number is the one that the written results give by hand."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from written_results import BEGIN_UNIX_NS, WrittenPoint, latencies, write_results

from traceql.runs.experiment import Experiment, experiment
from traceql.runs.experiment.experiment import experiment_queries
from traceql.sql.query import bound

pytestmark = pytest.mark.slow

MS = 1e6  # ns
FIVE = (-2, -1, 0, 1, 2)
FIXED, PER_TOKEN, SQUARED = 8.0, 0.02, 1e-6  # of TTFT, ms
STEP, PER_REQUEST, PER_CONTEXT = 5.0, 0.1, 3e-5  # of TPOT, ms
PROMPTS, BATCHES, OUTPUT = (128, 1024, 4096), (1, 4), 64
LOG = """
Model loading took 15.25 GiB and 3 seconds
Available KV cache memory: 90.5 GiB
GPU KV cache size: 10,000 tokens
Graph capturing finished in 12 secs, took 1.25 GiB
"""


def ttft(batch: int, prompt: int) -> float:
    return FIXED + PER_TOKEN * batch * prompt + SQUARED * batch * prompt**2


def tpot(batch: int, prompt: int) -> float:
    return STEP + PER_REQUEST * batch + PER_CONTEXT * batch * (prompt + OUTPUT / 2)


def point(batch: int, prompt: int, *, off: float = 1.0) -> WrittenPoint:
    """Five repeats on the curve, one in a thousand apart, of which the third is the median."""
    first, each = ttft(batch, prompt), tpot(batch, prompt) * off
    said = [
        latencies(
            ttft=first * (1 + n / 1000),
            tpot=each * (1 + n / 1000),
            itl=each,
            e2el=(first + (OUTPUT - 1) * each) * (1 + n / 1000),
        )
        for n in FIVE
    ]
    return WrittenPoint(said, batch=batch, prompt_tokens=prompt, output_tokens=OUTPUT)


def opened(folder: Path, points: Sequence[WrittenPoint], **plan: Any) -> Experiment:
    return experiment(write_results(folder / "tp", points, **plan))


def grid(*, off: float = 1.0) -> list[WrittenPoint]:
    """All batches and prompts, of which one in the middle may be off the curve of TPOT."""
    changed = BATCHES[0], PROMPTS[1]
    return [
        point(batch, prompt, off=off if (batch, prompt) == changed else 1.0)
        for batch in BATCHES
        for prompt in PROMPTS
    ]


def write_telemetry(folder: Path, points: Sequence[WrittenPoint], *, watts: int, used: int) -> None:
    """Eleven samples in the second that a repeat takes, of which three are below the clock."""
    for one in points:
        samples = [
            {
                "unix_ns": BEGIN_UNIX_NS + number * 10**8, "gpu": gpu, "uuid": f"GPU-{gpu}",
                "utilization_pct": 99, "memory_used_bytes": used, "temperature_c": 60,
                "power_mw": watts * 1000, "sm_clock_mhz": 1980,
                "throttle_reasons": 0x4 if number < 3 else 0, "energy_mj": watts * 100 * number,
            }
            for number in range(11)
            for gpu in range(one.tp)
        ]  # fmt: skip
        for number in range(1, len(one.said) + 1):
            place = folder / "points" / one.path / f"repeat-{number}"
            pq.write_table(pa.Table.from_pylist(samples), place / "telemetry.parquet")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Experiment]:
    """All kinds of answers: two engines, loads, limits, telemetry, logs, failures."""
    folder = tmp_path_factory.mktemp("results")
    said = [
        latencies(ttft=10 * load + n, tpot=10 - 2 * tp + load / 10 + n / 100, e2el=900)
        | {"output_throughput": 100 * load + n, "request_throughput": load + n / 100}
        | {"request_goodput": load / 2, "total_output_tokens": 100, "p99_ttft_ms": 20 * load}
        for tp, load, n in ((tp, load, n) for tp in (1, 2) for load in (1, 4) for n in FIVE)
    ]
    points = [
        WrittenPoint(said[5 * n : 5 * n + 5], tp=tp, concurrency=load, prompt_tokens=prompt)
        for n, (tp, load) in enumerate(((1, 1), (1, 4), (2, 1), (2, 4)))
        for prompt in PROMPTS
    ]
    lost = [
        WrittenPoint([None] * 5, tp=2, concurrency=8),
        WrittenPoint(tp=2, concurrency=99, skipped="more than max_num_seqs"),
    ]
    place = write_results(folder / "tp", [*points, *lost], log=LOG, limits={"ttft_ms": 100.0})
    write_telemetry(place, points, watts=500, used=120 * 2**30)
    with experiment(place) as found:
        yield found


@pytest.mark.parametrize("name", experiment_queries())
def test_heads_describe_statements_and_every_allowed_value_works(
    results: Experiment, name: str
) -> None:
    query = experiment_queries()[name]
    (statement,) = duckdb.extract_statements(query.sql)
    assert statement.named_parameters == {p.name for p in query.head.parameters}
    described = results.sql(f"DESCRIBE {query.sql}", bound(query, {}))
    assert [(row["column_name"], row["column_type"]) for row in described] == [
        (column.name, column.type) for column in query.head.columns
    ]
    values = [{p.name: value} for p in query.head.parameters for value in p.values]
    for given in [{}, *values]:
        found = results.run(name, **given)
        if query.head.chart and found.can_be_drawn:
            assert found.chart().to_dict(validate=False)


def test_a_latency_is_the_median_of_repeats_with_an_interval(tmp_path: Path) -> None:
    said = [latencies(tpot=value) for value in (10.0, 12.0, 11.0, 14.0, 13.0)]
    with opened(tmp_path, [WrittenPoint(said, tp=2, batch=4)]) as found:
        (row,) = found.run("latency")
    assert (row["median_ns"], row["low_ns"], row["high_ns"]) == (12 * MS, 10 * MS, 14 * MS)
    assert (row["repeats"], row["coverage_pct"]) == (5, 93.75)  # 1 - 2 / 2**5
    assert (row["engine"], row["in_flight"], row["prompt_tokens"]) == ("TP 2", 4, 128)
    assert row["fitted_ns"] is None


def test_a_fit_finds_the_coefficients_that_made_the_times(tmp_path: Path) -> None:
    with opened(tmp_path, grid()) as found:
        fits = {row["metric"]: row for row in found.run("fit")}
        rows = {m: found.run("latency", metric=m).rows() for m in ("ttft", "tpot", "e2e", "itl")}
    for metric, expected in (
        ("ttft", (FIXED, PER_TOKEN, SQUARED)),
        ("tpot", (STEP, PER_REQUEST, PER_CONTEXT)),
    ):
        names = ("fixed_ns", "linear_ns", "context_ns")
        assert [fits[metric][name] / MS for name in names] == pytest.approx(expected)
        assert fits[metric]["points"] == len(PROMPTS) * len(BATCHES)
        assert fits[metric]["worst_error_pct"] == pytest.approx(0, abs=1e-6)
        assert fits[metric]["reason"] is None
    for row in rows["e2e"]:
        load = row["in_flight"], row["prompt_tokens"]
        assert row["fitted_ns"] == pytest.approx((ttft(*load) + (OUTPUT - 1) * tpot(*load)) * MS)
        assert row["error_pct"] == pytest.approx(0, abs=1e-6)
        parts = row["fixed_ns"] + row["linear_ns"] + row["context_ns"]
        assert parts == pytest.approx(row["fitted_ns"])
    assert {row["fitted_ns"] for row in rows["itl"]} == {None}


def test_a_point_that_is_off_the_curve_is_named_with_its_distance(tmp_path: Path) -> None:
    with opened(tmp_path, grid(off=1.2)) as found:
        (fit,) = [row for row in found.run("fit") if row["metric"] == "tpot"]
        rows = found.run("latency").rows()
    assert fit["worst_point"] == "1 in flight, 1,024 prompt tokens"
    errors = []
    for row in rows:
        batch, prompt = row["in_flight"], row["prompt_tokens"]
        curve = fit["fixed_ns"] + fit["linear_ns"] * batch
        curve += fit["context_ns"] * batch * (prompt + OUTPUT / 2)
        errors.append(100 * (curve / row["median_ns"] - 1))
        assert row["error_pct"] == pytest.approx(errors[-1])
    assert fit["worst_error_pct"] == pytest.approx(max(map(abs, errors)))
    assert fit["median_error_pct"] == pytest.approx(sum(sorted(map(abs, errors))[2:4]) / 2)
    assert fit["worst_error_pct"] > 1


def shown(step_ms: float, rate: float, *, spread: float = 0.001, **where: Any) -> WrittenPoint:
    said = [
        latencies(tpot=step_ms * (1 + n * spread)) | {"output_throughput": rate * (1 + n * spread)}
        for n in FIVE
    ]
    return WrittenPoint(said, **where)


def test_a_point_is_dominated_or_on_the_front_only_if_its_interval_is(tmp_path: Path) -> None:
    points = [
        shown(10.0, 200, tp=2, concurrency=1),  # 100 tokens/s per user, 100 per GPU
        shown(12.0, 600, tp=2, concurrency=4),
        shown(30.0, 1800, tp=2, concurrency=16),
        shown(11.0, 90, tp=1, concurrency=1),  # less than the first one in both
        shown(11.99, 301, tp=1, concurrency=4, spread=0.01),  # as good as the second one
        shown(40.0, 1, tp=1, concurrency=1, prompt_tokens=1024),  # compared with nothing
    ]
    with opened(tmp_path, points, repeats=5) as found:
        rows = found.run("throughput").rows()
    where = {(r["engine"], r["in_flight"], r["prompt_tokens"]): r for r in rows}
    fronts = {key: row["front"] for key, row in where.items()}
    assert [fronts["TP 2", load, 128] for load in (1, 4, 16)] == [
        "on the front", "undecided", "on the front",
    ]  # fmt: skip
    assert [fronts["TP 1", load, 128] for load in (1, 4)] == ["dominated", "undecided"]
    assert fronts["TP 1", 1, 1024] == "on the front"
    first = where["TP 2", 1, 128]
    assert first["tokens_per_second_per_user"] == pytest.approx(100)
    assert first["output_tokens_per_second_per_gpu"] == 100
    assert (first["user_low"], first["user_high"]) == pytest.approx((100 / 1.002, 100 / 0.998))
    assert (first["gpu_low"], first["gpu_high"]) == pytest.approx((99.8, 100.2))


def steady(step_ms: float, rate: float = 1.0, **where: Any) -> WrittenPoint:
    """Repeats without any noise, whose interval is one number."""
    return shown(step_ms, rate, spread=0.0, **where)


@pytest.mark.parametrize(("serial", "base"), [(0.0, 1), (0.05, 2), (1.0, 1)])
def test_the_serial_share_is_that_of_amdahls_law(tmp_path: Path, serial: float, base: int) -> None:
    times = {gpus: 10 * (serial + (1 - serial) / gpus) for gpus in (base, 4, 8)}
    with opened(tmp_path, [steady(ms, tp=n, batch=8) for n, ms in times.items()]) as found:
        rows = [row for row in found.run("scaling") if row["scaling"] == "strong"]
    assert [(row["gpus"], row["base_gpus"]) for row in rows] == [(4, base), (8, base)]
    for row in rows:
        speedup = base * times[base] / times[row["gpus"]]
        assert row["speedup"] == pytest.approx(speedup)
        assert row["efficiency_pct"] == pytest.approx(100 * speedup / row["gpus"])
        assert row["serial_pct"] == pytest.approx(100 * serial, abs=1e-9)
        assert row["low_pct"] == row["efficiency_pct"] == row["high_pct"]


def test_weak_scaling_keeps_the_load_per_gpu(tmp_path: Path) -> None:
    points = [steady(10.0, 400, tp=1, batch=4), steady(12.5, 640, tp=2, batch=8)]
    with opened(tmp_path, points) as found:
        (latency,) = found.run("scaling")
        (rate,) = found.run("scaling", metric="output_tokens_per_second")
    for row in (latency, rate):
        assert (row["scaling"], row["in_flight"], row["load"]) == ("weak", 8, 4)
        assert row["efficiency_pct"] == pytest.approx(80)
        assert row["speedup"] is row["serial_pct"] is None


def loaded(load: int, rate: float, wait_ms: float, **more: Any) -> WrittenPoint:
    said = [
        latencies(ttft=wait_ms * (1 + n / 1000))
        | {"p99_ttft_ms": 2 * wait_ms, "output_throughput": rate * (1 + n / 1000)}
        | {"request_throughput": rate / 10, "request_goodput": rate / 40}
        | {"queue_times": [wait_ms / 2000, wait_ms / 1000]}
        for n in FIVE
    ]
    return WrittenPoint(said, concurrency=load, **more)


def test_an_engine_is_saturated_where_more_load_only_waits(tmp_path: Path) -> None:
    points = [
        loaded(64, 707, 900),
        loaded(1, 100, 10),
        loaded(8, 700, 12),
        loaded(1, 100, 10, prompt_tokens=1024),
        loaded(8, 102, 10, prompt_tokens=1024),  # no more throughput, and nobody waits
        loaded(64, 107.1, 99, prompt_tokens=1024),  # 5% more, which is on the line
    ]
    with opened(tmp_path, points) as found:
        rows = found.run("saturation").rows()
        wider = found.run("saturation", margin_pct=10).rows()
    assert [(row["prompt_tokens"], row["in_flight"], row["saturated"]) for row in rows] == [
        (128, 1, None), (128, 8, "no"), (128, 64, "yes"),
        (1024, 1, None), (1024, 8, "undecided"), (1024, 64, "undecided"),
    ]  # fmt: skip
    assert [row["saturated"] for row in wider][-1] == "yes"
    assert [row["gain_pct"] for row in rows[:3]] == [None, *map(pytest.approx, (600, 1))]
    assert [row["load_gain_pct"] for row in rows[:3]] == [None, 700, 700]
    assert rows[2]["gain_low_pct"] < 1 < rows[2]["gain_high_pct"] < 5
    last = rows[2]
    assert (last["output_tokens_per_second"], last["requests_per_second"]) == (707, 70.7)
    assert last["good_pct"] == pytest.approx(25)
    assert last["good_requests_per_second"] == pytest.approx(707 / 40)
    assert (last["ttft_p50_ns"], last["ttft_p99_ns"]) == (900 * MS, 1800 * MS)
    assert last["queue_max_ns"] == pytest.approx(900 * MS)


def test_parts_of_the_memory_add_up_to_what_is_used(results: Experiment) -> None:
    one, two = results.run("memory")
    gib = 2**30
    assert [one[part] for part in ("weights_bytes", "kv_cache_bytes", "cuda_graphs_bytes")] == [
        15.25 * gib, 90.5 * gib, 1.25 * gib,
    ]  # fmt: skip
    assert one["used_bytes"] == 120 * gib
    assert one["other_bytes"] == (120 - 15.25 - 90.5 - 1.25) * gib
    assert (one["kv_cache_tokens"], one["longest_request"]) == (10_000, 4096 + 16)
    assert one["longest_requests"] == 2
    assert (one["starts"], one["start_ns"], two["engine"]) == (5, 30e9, "TP 2")


def test_the_ledger_adds_up_and_failures_are_what_it_lacks(results: Experiment) -> None:
    one, two = results.run("ledger")
    assert (one["planned"], one["complete"], one["failed"], one["missing"]) == (30, 30, 0, 0)
    assert (two["planned"], two["complete"], two["failed"], two["missing"]) == (35, 30, 5, 0)
    assert (two["points"], two["left_out"], two["least_repeats"]) == (7, 1, 0)
    assert one["adds_up"] is two["adds_up"] is True
    rows = [(r["status"], r["reason"], r["points"], r["repeats"]) for r in results.run("failures")]
    assert rows == [
        ("failed", "out of GPU memory", 1, 5), ("left out", "more than max_num_seqs", 1, None),
    ]  # fmt: skip
    each = results.run("failures", each=True).rows()
    assert [row["repeat"] for row in each] == ["1", "2", "3", "4", "5", None]


def test_what_was_not_run_yet_is_missing_and_a_log_states_its_error(tmp_path: Path) -> None:
    points = [steady(10.0, batch=1), WrittenPoint([None], batch=4)]
    folder = write_results(tmp_path / "tp", points, repeats=5)
    failed = folder / "points" / points[1].path / "repeat-1" / "run.json"
    run = json.loads(failed.read_text())
    lines = ["INFO loading", "  torch.OutOfMemoryError: CUDA out of memory", "INFO shutting down"]
    run["experiment"]["log_tail"] = {"server": lines}
    failed.write_text(json.dumps(run))
    with experiment(folder) as found:
        (ledger,) = found.run("ledger")
        rows = found.run("failures").rows()
    assert (ledger["planned"], ledger["complete"], ledger["failed"], ledger["missing"]) == (
        10, 5, 1, 4,
    )  # fmt: skip
    assert [(row["status"], row["points"], row["repeats"]) for row in rows] == [
        ("failed", 1, 1), ("missing", 1, 4),
    ]  # fmt: skip
    assert rows[0]["log_line"] == "torch.OutOfMemoryError: CUDA out of memory"


def test_a_fact_in_which_repeats_differ_is_named(tmp_path: Path) -> None:
    points = [steady(10.0, batch=1)]
    folder = write_results(tmp_path / "tp", points)
    file = folder / "points" / points[0].path / "repeat-3" / "run.json"
    run = json.loads(file.read_text())
    file.write_text(json.dumps(run | {"host": {"name": "other"}}))
    with experiment(folder) as found:
        rows = found.run("setup").rows()
    hosts = [(r["value"], r["repeats"], r["differs"]) for r in rows if r["fact"] == "host"]
    assert hosts == [("node", 4, True), ("other", 1, True)]
    assert {row["fact"] for row in rows if row["differs"]} == {"host"}
    assert {row["fact"]: row["value"] for row in rows}["gpu"] == "NVIDIA H200"


def test_the_numbers_of_vllm_bench_are_in_the_database_as_they_are(tmp_path: Path) -> None:
    stats = ("mean", "median", "std", "p50", "p90", "p99")
    names = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2e"}
    times = {
        f"{stat}_{name}_ms": 1.5 + 10 * place + number
        for place, name in enumerate(names)
        for number, stat in enumerate(stats)
    }
    totals = {
        "request_throughput": ("requests_per_second", 12.5),
        "request_goodput": ("good_requests_per_second", 11.25),
        "output_throughput": ("output_tokens_per_second", 1600.75),
        "total_token_throughput": ("tokens_per_second", 3201.5), "completed": ("requests", 64),
        "total_input_tokens": ("input_tokens", 8192),
        "total_output_tokens": ("output_tokens", 8190),
    }  # fmt: skip
    said = times | {key: value for key, (_, value) in totals.items()} | {"duration": 5.125}
    with opened(tmp_path, [WrittenPoint([said], batch=64)]) as found:
        rows = found.sql("FROM measurement").rows()
    stored = {(row["metric"], row["stat"]): row["value"] for row in rows}
    for name, metric in names.items():
        for stat in stats:
            assert stored[metric, stat] == said[f"{stat}_{name}_ms"] * MS
    assert {key: stored[metric, "total"] for key, (metric, _) in totals.items()} == {
        key: value for key, (_, value) in totals.items()
    }
    assert stored["duration", "total"] == 5.125e9
    assert len(stored) == len(said)
