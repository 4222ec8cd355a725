"""Histories: what is marked, what is compared with what, and what is said of it."""

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

import databases
import pyarrow as pa
import pytest
from command_line import called, output, refusal
from repeats import EXAMPLE, Profile, example, saved, scaled, with_facts

import traceql
from traceql.runs.compare.sides import RunProfile
from traceql.runs.history.lookback import LEAST_BEFORE, Mark, score_points

NOISE = [1, 1.004, 0.997, 1.001, 1.006, 0.994, 1.002, 0.999, 1.003, 0.998, 1.001, 1.005]
DAY_NS = 86_400 * 10**9
FIRST_NS = 1_790_000_000 * 10**9  # 2026-09-21 14:13 UTC


def save(folder: Path, *profiles: Profile) -> None:
    """A baseline with a run of each profile."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    saved(folder, [RunProfile(f"run{n}", None, one) for n, one in enumerate(profiles)])


def recorded(factor: float, after_ns: int, of: str, dirty: str = "false") -> Profile:
    """The example with its times multiplied, so long after the first run, on a commit."""
    started = str(FIRST_NS + after_ns)
    git = {"git.commit": of, "git.branch": "main", "git.dirty": dirty}
    return with_facts(scaled(example(), factor), git | {"time.started_unix_ns": started})


def save_history(folder: Path, factors: Sequence[float]) -> None:
    """A run a day, each on a commit of its own, in folders named by the day."""
    for day, factor in enumerate(factors):
        save(folder / f"day-{day:03}" / "run", recorded(factor, day * DAY_NS, commit(day)))


def commit(number: int) -> str:
    return f"{number + 0xABC0:040x}"[::-1]


def marks(values: list[float]) -> dict[int, str]:
    """The marked values; without those that have too few before them."""
    kinds = {place: one.mark for place, one in enumerate(score_points(values))}
    return {place: mark.value for place, mark in kinds.items() if mark not in ("", Mark.TOO_FEW)}


def noisy(count: int, seed: int, *, step: float = 0, at: int = 0) -> list[float]:
    draw = random.Random(seed)
    level = [100 * (1 + step * (place >= at)) for place in range(count)]
    return [value * (1 + draw.gauss(0, 0.01)) for value in level]


def test_noise_is_not_marked() -> None:
    assert sum(bool(marks(noisy(40, seed))) for seed in range(40)) <= 2


def test_a_step_of_five_deviations_is_marked_within_three_points() -> None:
    found = 0
    for seed in range(40):
        seen = marks(noisy(23, seed, step=0.05, at=20))
        found += any(mark == "change" and place >= 19 for place, mark in seen.items())
    assert found >= 37


def test_a_step_that_stays_is_a_change_and_what_returns_is_an_outlier() -> None:
    assert marks([*NOISE, 1.1]) == {12: "unconfirmed"}
    assert marks([*NOISE, 1.1, 1.11, 1.09, 1.1]) == {12: "change"}
    assert marks([*NOISE, 1.5, 1, 1.003, 0.999]) == {12: "outlier"}
    assert marks([*NOISE, 1.1, 1.11, 1.09, 1.1, 1, 1.01, 0.99, 1]) == {12: "change", 16: "change"}


def test_nothing_is_marked_with_too_few_values() -> None:
    few = [*NOISE[: LEAST_BEFORE - 1], 2, 2, 2]
    assert marks(few[:LEAST_BEFORE]) == {}
    assert all(one.mark is Mark.TOO_FEW for one in score_points(few)[:LEAST_BEFORE])


def test_changes_below_one_percent_are_not_marked() -> None:
    assert marks([*[1] * 10, *[1.009] * 10]) == {}
    assert marks([*[1] * 10, *[1.011] * 10]) == {10: "change"}


def test_z_is_the_distance_in_standard_errors_of_the_values_before() -> None:
    last = score_points([*NOISE, 1.01])[-1]
    assert last.expected == pytest.approx(fmean(NOISE))
    assert last.deviation == pytest.approx(stdev(NOISE))
    error = stdev(NOISE) * sqrt(1 + 1 / len(NOISE))
    assert last.z == pytest.approx((1.01 - fmean(NOISE)) / error)


def test_a_change_is_reported_with_its_size_date_and_commit(tmp_path: Path) -> None:
    save_history(tmp_path, [*NOISE, *[1.061 * one for one in NOISE[:5]]])
    found = traceql.history(tmp_path, metrics="decode.step")
    assert found.titles == ("decode step of qwen3 with 36 layers on H200",)
    assert found.has_change == (True,)
    assert found.descriptions[0].startswith(
        f"slower by 6.1% since 2026-10-03 14:13 (commit {commit(12)[:9]}), z = "
    )
    rows = found.df()
    assert list(rows["mark"][8:]) == ["", "", "", "", "change", "", "", "", ""]
    assert list(rows["mark"][:8]) == ["too few before"] * 8
    assert rows["shift_pct"][12] == pytest.approx(6.1, abs=0.15)
    assert [row["time_from"] for row in found] == ["run.json"] * 17


@pytest.mark.slow
def test_the_value_of_a_run_is_that_of_a_comparison(tmp_path: Path) -> None:
    database = databases.trace(EXAMPLE).path
    shutil.copy(database, tmp_path / "run.duckdb")
    comparison = traceql.diff(database, database)
    own = comparison.sql(
        "SELECT scope || '.' || metric AS name, ns FROM run_value WHERE side = 'base' AND run = 0"
    )
    expected = {row["name"]: row["ns"] for row in own}
    asked = ["decode.step", "prefill.interval", "decode.idle", "decode.qkv_proj", "step"]
    found = traceql.history(tmp_path, metrics=asked)
    values = {f"{row['scope']}.{row['metric']}": row["median_ns"] for row in found}
    assert values == {name: expected[name] for name in (*asked[:-1], "all.step")}
    assert "too few runs" in found.descriptions[0]


def test_runs_of_a_baseline_and_runs_of_a_commit_are_one_point(tmp_path: Path) -> None:
    given = [(1, "false"), (1.02, "false"), (1.01, "false"), (2, "false"), (3, "true")]
    of_commit = [recorded(by, n, commit(n // 3), dirty) for n, (by, dirty) in enumerate(given)]
    save(tmp_path / "a", *of_commit[:2])
    for number, one in enumerate(of_commit[2:]):
        save(tmp_path / f"b{number}", one)
    by_time = traceql.history(tmp_path, metrics="decode.step").df()
    assert list(by_time["runs"]) == [2, 1, 1, 1]
    assert by_time["least_ns"][0] < by_time["median_ns"][0] < by_time["most_ns"][0]
    by_commit = traceql.history(tmp_path, by="commit", metrics="decode.step").df()
    assert list(by_commit["x"]) == [commit(0)[:9], commit(1)[:9], f"{commit(1)[:9]}-dirty"]
    assert list(by_commit["runs"]) == [3, 1, 1]
    assert by_commit["median_ns"][0] == pytest.approx(by_time["median_ns"][1])


def test_commits_are_in_the_order_of_their_first_recording(tmp_path: Path) -> None:
    for place, (time, of) in enumerate([(5, "b"), (1, "c"), (9, "c"), (3, "a")]):
        save(tmp_path / str(place), recorded(1 + place / 100, time, of * 40))
    found = traceql.history(tmp_path, by="commit", metrics="decode.step").df()
    assert [x[0] for x in found["x"]] == ["c", "a", "b"]


def test_times_come_from_the_run_the_trace_the_baseline_or_the_file(tmp_path: Path) -> None:
    profile = example()
    save(tmp_path / "trace", profile)
    unknown = with_facts(scaled(profile, 1.1), {"time.first_event_unix_ns": "4711"})
    save(tmp_path / "saved", unknown)
    save(tmp_path / "file", scaled(unknown, 1.1))
    manifest = tmp_path / "file" / "baseline.json"
    document = json.loads(manifest.read_text())
    del document["saved"]
    manifest.write_text(json.dumps(document))
    os.utime(manifest, ns=(FIRST_NS, FIRST_NS))
    found = traceql.history(tmp_path, metrics="decode.step")
    assert {row["time_from"] for row in found} == {"trace", "baseline", "file"}
    of_file = next(row for row in found if row["time_from"] == "file")
    assert of_file["recorded"] == "2026-09-21T14:13:20Z"


@pytest.mark.slow
def test_runs_that_do_not_compare_are_in_series_of_their_own(tmp_path: Path) -> None:
    profile = example()
    others = {
        "gpu": {"gpu.name": "NVIDIA B200"},
        "tp": {"parallel.tp": "2"},
        "model": {"model.family": "llama"},
        "lengths": {},
        "same": {"gpu.driver": "another", "version.vllm": "another"},
    }
    save(tmp_path / "a", profile)
    for number, (name, facts) in enumerate(others.items(), start=2):
        one = with_facts(scaled(profile, number), facts)
        if name == "lengths":
            one = {**one, "stratum": _with_lengths(one), "metric": _with_lengths(one, "metric")}
        save(tmp_path / name, one)
    found = traceql.history(tmp_path, metrics="decode.step")
    assert set(found.titles) == {
        "decode step of qwen3 with 36 layers on H200",
        "decode step of qwen3 with 36 layers on B200",
        "decode step of qwen3 with 36 layers on H200, TP 2",
        "decode step of llama with 36 layers on H200",
        "decode step of qwen3 with 36 layers on H200, KV lengths known",
    }
    assert sorted(Counter(row["title"] for row in found).values()) == [1, 1, 1, 1, 2]
    together = traceql.history(tmp_path, metrics="decode.step", accept=["all"])
    assert sorted(len(together.of(number)) for number in range(len(together.titles))) == [1, 5]


def _with_lengths(profile: Profile, name: str = "stratum") -> pa.Table:
    table = profile[name]
    place = table.schema.get_field_index("grain")
    kv = table.set_column(place, "grain", pa.array(["kv"] * len(table), pa.string()))
    return pa.concat_tables([table, kv])


def test_what_cannot_be_read_is_named_and_left_out(tmp_path: Path) -> None:
    save(tmp_path / "good", example())
    (tmp_path / "text.duckdb").write_text("no database")
    save(tmp_path / "damaged", scaled(example(), 2))
    (tmp_path / "damaged" / "metric.parquet").write_bytes(b"PAR1")
    (tmp_path / "run" / "traces").mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text("{")
    save(tmp_path / "lost", with_facts(scaled(example(), 3), {"ledger.lost": "events of rank 0"}))
    shutil.copytree(tmp_path / "good", tmp_path / "twice")
    found = traceql.history(tmp_path, metrics="decode.step")
    assert len(found) == 1
    told = "\n".join(found.skipped)
    assert "text.duckdb is not a traceql database" in told
    assert "a file of the baseline" in told
    assert f"{tmp_path / 'run'}: no traces" in told
    assert "fails its ledger (events of rank 0)" in told
    assert "is the same recording as" in told
    assert len(found.skipped) == 5


def test_a_folder_without_runs_is_one_line(tmp_path: Path) -> None:
    assert "does not exist" in refusal("history", tmp_path / "none")
    (tmp_path / "link").symlink_to(tmp_path)  # leads back
    assert "has no database" in refusal("history", tmp_path)
    (tmp_path / "a.duckdb").write_text("no database")
    assert "is one file" in refusal("history", tmp_path / "a.duckdb")


def test_what_is_requested_must_exist(tmp_path: Path) -> None:
    save(tmp_path / "a", example())
    assert "did you mean 'decode.step'" in refusal("history", tmp_path, "--metric", "decode.stp")
    assert "has its commit" in refusal("history", tmp_path, "--by", "commit")
    assert "must end in" in refusal("history", tmp_path, "-o", tmp_path / "history.pdf")


@pytest.mark.slow
def test_tables_and_formats_have_a_row_for_each_point(tmp_path: Path) -> None:
    save_history(tmp_path, [*NOISE, 1.1, 1.11, 1.09])
    words = ("history", tmp_path, "--metric", "decode.step")
    shown = called(*words).stdout.decode()
    assert shown.startswith("! decode step of qwen3 with 36 layers on H200: slower by 9.")
    assert "2026-10-03 14:13" in shown
    assert len(called(*words, "--format", "csv").stdout.splitlines()) == 1 + 15
    times = [row["recorded_unix_ns"] for row in json.loads(output(*words, "--format", "json"))]
    assert {later - earlier for earlier, later in pairwise(times)} == {DAY_NS}


@pytest.mark.slow
def test_pages_and_charts_need_no_network(tmp_path: Path) -> None:
    save_history(tmp_path / "runs", [*NOISE, 1.5, *NOISE, 1.1, 1.11, 1.09, 2])
    other = with_facts(example(), {"gpu.name": "NVIDIA <b>B200", "git.commit": "f" * 40})
    save(tmp_path / "runs" / "b200", other)
    for suffix in ("html", "svg"):
        file = tmp_path / f"history.{suffix}"
        words = ("history", tmp_path / "runs", "--by", "commit", "-o", file)
        assert called(*words, "--metric", "decode.step").returncode == 0
    page = (tmp_path / "history.html").read_text()
    assert "slower by 9." in page
    assert "too few runs to detect a change" in page
    assert "http" not in page.replace("http://www.w3.org/", "")
    assert "<b>B200" not in page
    assert "NaN" not in (tmp_path / "history.svg").read_text()
