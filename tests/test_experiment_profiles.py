"""What experiments say of profiled points, on real recordings: against what their traces say."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import databases
import pytest
import traces
from written_results import Row, WrittenPoint, latencies, only, total, write_results

import traceql
from traceql.runs.experiment import experiment
from traceql.runs.experiment.experiment import Experiment

NAMES = ("ep.exchange", "pp.bubble", "profile.parts", "profiles", "tp.overhead", "utilization")
OVERHEAD = (
    "transfer_ns", "wait_ns", "unmatched_ns", "work_ns", "copies_ns", "idle_ns", "other_step_ns",
)  # fmt: skip
PARTS = (
    "projections_ns", "attention_ns", "experts_ns", "norms_ns", "head_ns", "other_computing_ns",
    "transfer_ns", "wait_ns", "unmatched_ns", "copies_ns", "idle_host_ns", "idle_sync_ns",
    "idle_launch_ns", "idle_other_ns", "other_step_ns",
)  # fmt: skip
SAID = [latencies(ttft=20.0, tpot=5.0, itl=4.0)] * 3
TP1, TP2 = "qwen3-8b-tp1-graph", "qwen3-8b-tp2-batch16"
PEAKS = Path(__file__).parent / "data" / "peaks-h200.json"


pytestmark = pytest.mark.slow  # they load traces


def run_directory(folder: Path, name: str) -> Path:
    """A run directory with the loose traces of an example, and its model's configuration."""
    shutil.copytree(databases.EXAMPLES / name, folder / "traces")
    (folder / "traces" / "config.json").rename(folder / "config.json")
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TP 1 and TP 2 of one model, recorded at loads of which some steps are equal."""
    folder = tmp_path_factory.mktemp("parts")
    own: dict[str, Any] = {"prompt_tokens": 512, "output_tokens": 6}
    points = [
        WrittenPoint(SAID, tp=1, batch=16, profiled=run_directory(folder / "tp1", TP1), **own),
        WrittenPoint(SAID, tp=2, batch=16, profiled=databases.EXAMPLES / TP2, **own),
        WrittenPoint(SAID, tp=2, batch=32, **own),
    ]
    written = write_results(folder / "results", points)
    shutil.copy(PEAKS, written / "peaks.json")
    return written


@pytest.fixture(scope="module")
def measured(results: Path) -> Iterator[Experiment]:
    with experiment(results) as opened:
        yield opened


@pytest.mark.parametrize("by", ["part", "role"])
def test_parts_add_up_to_the_nanosecond(by: str, measured: Experiment) -> None:
    rows = measured.run("tp.overhead", by=by).rows()
    assert rows
    for row in rows:
        assert row["ideal_ns"] + row["overhead_ns"] == row["step_ns"]
        assert total(row, OVERHEAD) == row["overhead_ns"]
    rows = measured.run("profile.parts").rows()
    assert len({(row["point"], row["phase"]) for row in rows}) == 2 * 3
    for row in rows:
        assert total(row, PARTS) == row["step_ns"]


def test_utilization_is_of_the_data_sheet_and_of_measured_peaks(measured: Experiment) -> None:
    """989.4 TFLOP/s and 4,800 GB/s; the point of TP 2 has a peaks.json of its own, which counts."""
    rows = measured.run("utilization", phase="prefill").rows()
    for point, file in (
        ("TP 1, batch 16", PEAKS),
        ("TP 2, batch 16", databases.EXAMPLES / TP2 / "peaks.json"),
    ):
        row, peaks = only(rows, point=point), json.loads(file.read_text())
        tflops = max(
            2e-3 * one["m"] * one["k"] * one["n"] / (one.get("fastest_ns") or one["ns"])
            for one in peaks["products"]
            if one["dtype"] == "bf16"
        )
        gbps = max(one["bytes"] / (one.get("fastest_ns") or one["ns"]) for one in peaks["memory"])
        ratios = (row[f"measured_{kind}_pct"] / row[f"{kind}_pct"] for kind in ("mfu", "mbu"))
        assert tuple(ratios) == pytest.approx((989.4 / tflops, 4_800 / gbps), rel=0.01)
    assert {row["peaks"] for row in measured.run("profiles") if row["status"] == "loaded"} == {
        "data sheet and measured"
    }


def test_utilization_is_that_of_the_traces(measured: Experiment) -> None:
    with traceql.open(databases.EXAMPLES / TP2) as trace:
        expected = {row["phase"]: row for row in trace.run("model.mfu")}
    rows: list[Row] = [
        row for row in measured.run("utilization") if row["point"] == "TP 2, batch 16"
    ]
    assert {row["phase"] for row in rows} == set(expected) - {"all"}
    whole = measured.run("utilization", phase="all").rows()
    rows.append(only(whole, point="TP 2, batch 16"))
    for row in rows:
        for column in ("mfu_pct", "hfu_pct", "mbu_pct", "step_ns", "steps", "missing"):
            assert row[column] == expected[row["phase"]][column]


def test_profiles_say_which_points_have_one_and_what_the_profiler_cost(
    measured: Experiment,
) -> None:
    one, two, missing = measured.run("profiles").rows()
    assert (one["status"], one["steps"], one["decode_steps"]) == ("loaded", 7, 5)
    intervals = measured.sql(
        "SELECT m.ns / s.lanes AS ns FROM profile_stratum AS s "
        "INNER JOIN profile_metric AS m USING (point_id, grain, stratum) WHERE s.point_id = 0 "
        "AND s.grain = 'rows' AND s.phase = 'decode' AND m.metric = 'interval' "
        "ORDER BY s.gpu_ns DESC"
    ).rows()
    assert one["interval_ns"] == pytest.approx(intervals[0]["ns"])
    assert (one["tpot_ns"], one["itl_ns"]) == (5e6, 4e6)
    assert one["overhead_pct"] == pytest.approx(100 * (one["interval_ns"] / 4e6 - 1))
    assert (two["status"], two["reason"]) == ("loaded", None)
    assert (missing["status"], missing["steps"], missing["overhead_pct"]) == ("missing", 0, None)


@pytest.fixture
def odd(tmp_path: Path) -> Iterator[Experiment]:
    """Profiles of a CPU alone, of one rank of two, and of a file that is no trace."""
    cpu, broken, one_rank = (tmp_path / name for name in ("cpu", "broken", "one_rank"))
    traces.write(cpu / "traces" / "rank0.pt.trace.json", traces.host("aten::mm", ts=1, dur=2))
    (broken / "traces").mkdir(parents=True)
    (broken / "traces" / "rank0.pt.trace.json").write_text("not a trace")
    shutil.copytree(databases.EXAMPLES / TP2, one_rank)
    (one_rank / "traces" / "rank1.pt.trace.json.gz").unlink()
    own: dict[str, Any] = {"output_tokens": 6}
    full = run_directory(tmp_path / "full", TP1)
    points = [
        WrittenPoint(SAID, tp=1, batch=1, profiled=cpu, **own),
        WrittenPoint(SAID, tp=1, batch=2, profiled=broken, **own),
        WrittenPoint(SAID, tp=1, batch=16, profiled=full, **own),
        WrittenPoint(SAID, tp=2, batch=16, profiled=one_rank, **own),
    ]
    written = write_results(tmp_path / "results", points)
    (written / "peaks.json").write_text("{}")
    told: list[str] = []
    with experiment(written, warn=told.append) as opened:
        yield opened
    assert any("peaks.json cannot be used" in text for text in told)
    assert any("its profile is left out" in text for text in told)


def test_odd_profiles_are_distinguished_and_nothing_is_guessed(odd: Experiment) -> None:
    rows = {row["point"]: row for row in odd.run("profiles")}
    cpu, broken = rows["TP 1, batch 1"], rows["TP 1, batch 2"]
    assert (cpu["status"], cpu["reason"]) == (
        "no GPU", "its traces have no step with kernels of a GPU"
    )  # fmt: skip
    assert broken["status"] == "unusable"
    assert "rank0.pt.trace.json" in broken["reason"]
    assert (broken["steps"], broken["interval_ns"], broken["peaks"]) == (0, None, None)
    assert rows["TP 1, batch 16"]["peaks"] == "data sheet"
    row = only(odd.run("tp.overhead", phase="decode").rows())
    assert (row["transfer_ns"], row["wait_ns"]) == (None, None)  # the other rank is unknown
    assert row["unmatched_ns"] > 0
    assert total(row, OVERHEAD) == row["overhead_ns"] == row["step_ns"] - row["ideal_ns"]
    parts = only(odd.run("profile.parts", phase="decode").rows(), point="TP 2, batch 16")
    assert (parts["transfer_ns"], parts["wait_ns"]) == (None, None)
    assert total(parts, PARTS) == parts["step_ns"]
    assert {row["point"] for row in odd.run("utilization")} == {"TP 1, batch 16", "TP 2, batch 16"}


def test_without_profiles_each_answer_is_empty(tmp_path: Path) -> None:
    with experiment(write_results(tmp_path / "r", [WrittenPoint(SAID, batch=1)])) as opened:
        assert all(opened.run(name).rows() == [] for name in NAMES)
