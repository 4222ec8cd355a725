"""What experiments say of their profiled points: the parts of steps, and their comparison."""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import databases
import duckdb
import numpy as np
import pyarrow as pa
import pytest
import traces
from written_results import WrittenPoint, latencies, write_results

import traceql
from traceql.chart.draw import drawn
from traceql.experiment import experiment
from traceql.experiment.experiment import Experiment, experiment_queries
from traceql.experiment.load import fill
from traceql.experiment.schema import derive, insert
from traceql.query import bound
from traceql.query.head import Chart

NAMES = ("ep.exchange", "pp.bubble", "profile.parts", "profiles", "tp.overhead", "utilization")
OVERHEAD = (
    "transfer_ns", "wait_ns", "unmatched_ns", "work_ns", "copies_ns", "idle_ns", "other_step_ns",
)  # fmt: skip
PARTS = (
    "projections_ns", "attention_ns", "experts_ns", "norms_ns", "head_ns", "other_computing_ns",
    "transfer_ns", "wait_ns", "unmatched_ns", "copies_ns", "idle_host_ns", "idle_sync_ns",
    "idle_launch_ns", "idle_other_ns", "other_step_ns",
)  # fmt: skip
MOE = ("experts_ns", "routing_ns", "transfer_ns", "wait_ns", "unmatched_ns", "rest_ns")
SAID = [latencies(ttft=20.0, tpot=4.0)] * 3
TP1, TP2 = "qwen3-8b-tp1-graph", "qwen3-8b-tp2-batch16"
PEAKS = Path(__file__).parent / "data" / "peaks-h200.json"
DATA_SHEET_TFLOPS, DATA_SHEET_GBPS = 989.4, 4_800  # of an H200
Row = Mapping[str, Any]


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


def only(rows: Iterable[Row], **values: Any) -> Row:
    (row,) = (r for r in rows if all(r[name] == value for name, value in values.items()))
    return row


def total(row: Row, columns: Sequence[str]) -> int:
    return sum(row[column] or 0 for column in columns)


# ---- Heads, and that parts add up


@pytest.mark.parametrize("name", NAMES)
def test_head_describes_the_statement(name: str, measured: Experiment) -> None:
    query = experiment_queries()[name]
    (statement,) = duckdb.extract_statements(query.sql)
    assert statement.named_parameters == {one.name for one in query.head.parameters}
    described = measured.sql(f"DESCRIBE {query.sql}", bound(query, {}))
    columns = [(column.name, column.type) for column in query.head.columns]
    assert [(row["column_name"], row["column_type"]) for row in described] == columns
    names = {column.name for column in query.head.columns}
    assert set(query.head.keys) <= names
    assert query.head.chart is not None
    drawn = {name for names in query.head.chart.channels.values() for name in names.split(",")}
    assert drawn <= names
    assert query.head.empty


@pytest.mark.parametrize("by", ["part", "role"])
def test_overhead_is_the_sum_of_its_parts_to_the_nanosecond(by: str, measured: Experiment) -> None:
    rows = measured.run("tp.overhead", by=by).rows()
    assert rows
    for row in rows:
        assert row["ideal_ns"] + row["overhead_ns"] == row["step_ns"]
        assert total(row, OVERHEAD) == row["overhead_ns"]


def test_overheads_of_roles_are_those_of_the_step(measured: Experiment) -> None:
    roles = measured.run("tp.overhead", by="role").rows()
    steps = measured.run("tp.overhead").rows()
    assert {row["phase"] for row in steps} == {"decode", "prefill"}
    for step in steps:
        own = [row for row in roles if row["phase"] == step["phase"]]
        for column in ("step_ns", "ideal_ns", "overhead_ns", *OVERHEAD):
            assert sum(row[column] for row in own) == step[column]


def test_parts_of_a_step_and_of_its_experts_add_up(measured: Experiment) -> None:
    rows = measured.run("profile.parts").rows()
    assert {(row["point"], row["phase"]) for row in rows} == {
        (point, phase) for point in ("TP 1, batch 16", "TP 2, batch 16")
        for phase in ("decode", "mixed", "prefill")
    }  # fmt: skip
    for row in rows:
        assert total(row, PARTS) == row["step_ns"]


# ---- The same from the traces themselves


def step_parts(trace: traceql.Trace, phase: str, tokens: int) -> dict[str, float]:
    """The parts of the only step of a size, from unions of its kernels, mean of the ranks."""
    found = trace.sql(
        "SELECT step_id, rank, gpu_ts, gpu_dur FROM step WHERE phase = $phase "
        "AND context_tokens + generation_tokens = $tokens",
        {"phase": phase, "tokens": tokens},
    ).rows()
    ranks = trace.sql("SELECT COUNT(*) AS n FROM trace").rows()[0]["n"]
    assert len(found) == ranks
    parts = [rank_parts(trace, row) for row in found]
    return {name: sum(one[name] for one in parts) / ranks for name in parts[0]}


def rank_parts(trace: traceql.Trace, step: Row) -> dict[str, int]:
    """Counts nanoseconds, each of which belongs to computing before communication before copies."""
    begin, length = step["gpu_ts"], step["gpu_dur"]
    runs = {what: np.zeros(length, np.int8) for what in ("computing", "comm", "copy")}
    waits = np.zeros(length, bool)
    for row in trace.sql(
        "SELECT kernel.ts, kernel.dur, kernel.step_id, CASE kernel.category WHEN 'memcpy' "
        "THEN 'copy' WHEN 'memset' THEN 'copy' WHEN 'collective' THEN 'comm' ELSE 'computing' "
        "END AS what, "
        "collective.wait_ns FROM kernel LEFT JOIN collective ON kernel.id = collective.kernel_id "
        "WHERE kernel.rank = $rank ORDER BY kernel.ts",
        {"rank": step["rank"]},
    ):
        start, is_own = row["ts"] - begin, row["step_id"] == step["step_id"]
        within = slice(max(0, start), max(0, start + row["dur"]))
        runs[row["what"]][within] = 1 if is_own else 2  # of several, the one that began last
        waits[max(0, start) : max(0, start + (row["wait_ns"] or 0))] = True
    free = np.ones(length, bool)
    own, others = {}, 0
    for what, run in runs.items():
        own[what] = free & (run == 1)
        others += int((free & (run == 2)).sum())
        free &= run == 0
    waited = int((own["comm"] & waits).sum())
    return {
        "step": length,
        "work": int(own["computing"].sum()),
        "wait": waited,
        "transfer": int(own["comm"].sum()) - waited,
        "copies": int(own["copy"].sum()),
        "idle": int(free.sum()),
        "other_step": others,
    }


@pytest.mark.parametrize(("phase", "tokens"), [("decode", 2), ("prefill", 1024)])
def test_overhead_is_that_of_the_steps_in_the_traces(
    phase: str, tokens: int, measured: Experiment
) -> None:
    row = only(measured.run("tp.overhead").rows(), phase=phase)
    with traceql.open(databases.EXAMPLES / TP2) as trace:
        own = step_parts(trace, phase, tokens)
    base = step_parts(databases.trace(TP1), phase, tokens)
    expected = {name: own[name] - base[name] / 2 for name in own}
    close = pytest.approx  # each of up to 40 roles is rounded to ns
    assert row["step_ns"] == close(own["step"], abs=20)
    assert row["overhead_ns"] == close(expected["step"], abs=20)
    for name in ("work", "wait", "transfer", "copies", "idle", "other_step"):
        assert row[f"{name}_ns"] == close(expected[name], abs=20), name
    assert row["efficiency_pct"] == close(50 * base["step"] / own["step"], abs=1e-3)
    assert row["unmatched_ns"] == 0
    assert (row["steps"], row["base_steps"], row["tokens_pct"]) == (1, 1, 0)


def test_only_equal_steps_are_compared_and_their_share_is_told(measured: Experiment) -> None:
    """Decode steps of four and of sixteen requests, and mixed ones, are not equal."""
    spent = {
        row["point_id"]: row["ns"]
        for row in measured.sql(
            "SELECT point_id, SUM(gpu_ns) AS ns FROM profile_stratum "
            "WHERE grain = 'rows' AND phase = 'decode' GROUP BY point_id"
        )
    }
    with traceql.open(databases.EXAMPLES / TP2) as trace:
        own = 2 * step_parts(trace, "decode", 2)["step"]
    base = step_parts(databases.trace(TP1), "decode", 2)["step"]
    row = only(measured.run("tp.overhead", phase="decode").rows())
    least = min(own / spent[1], base / spent[0])
    assert row["compared_pct"] == pytest.approx(100 * least)
    assert measured.run("tp.overhead", phase="mixed").rows() == []


# ---- Utilization and its peaks


def test_utilization_is_of_the_data_sheet_and_of_measured_peaks(measured: Experiment) -> None:
    """The point of TP 2 has a peaks.json of its own, which counts before that of the results."""
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
        assert row["measured_mfu_pct"] / row["mfu_pct"] == pytest.approx(
            DATA_SHEET_TFLOPS / tflops, rel=0.01
        )
        assert row["measured_mbu_pct"] / row["mbu_pct"] == pytest.approx(
            DATA_SHEET_GBPS / gbps, rel=0.01
        )
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


# ---- Profiles


def test_profiles_say_which_points_have_one_and_what_the_profiler_cost(
    measured: Experiment,
) -> None:
    one, two, missing = measured.run("profiles").rows()
    assert (one["status"], one["steps"], one["decode_steps"]) == ("loaded", 7, 5)
    intervals = measured.sql(
        "SELECT SUM(s.units * m.ns / s.lanes) / SUM(s.units) AS ns FROM profile_stratum AS s "
        "INNER JOIN profile_metric AS m USING (point_id, grain, stratum) WHERE s.point_id = 0 "
        "AND s.grain = 'rows' AND s.phase = 'decode' AND m.metric = 'interval'"
    ).rows()
    assert one["interval_ns"] == pytest.approx(intervals[0]["ns"])
    assert one["tpot_ns"] == 4e6
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


def test_odd_profiles_are_told_apart_and_nothing_is_guessed(odd: Experiment) -> None:
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


# ---- Written tables, whose answers are known


def written(folder: Path, points: Sequence[WrittenPoint], **tables: Sequence[Row]) -> Experiment:
    """An experiment whose points have rows in the tables of profiles, but no traces."""
    con = duckdb.connect()
    fill(con, [write_results(folder, points)])
    for table, rows in tables.items():
        insert(con, table, list(rows))
    for table in ("profile_step_part", "profile_main_stratum"):
        con.execute(f"DROP TABLE {table}")
        derive(con, table)
    return Experiment(con, "written")


def stratum(
    point: int, name: str, *, grain: str = "rows", units: int = 1, lanes: int = 1, **more: Any
) -> Row:
    known = {"phase": name.partition(",")[0], "typical": units, "gpu_ns": 100 * units * lanes}
    return {
        "point_id": point, "grain": grain, "stratum": name, "units": units, "lanes": lanes,
    } | known | more  # fmt: skip


def part(point: int, stratum: str, name: str, ns: int, role: str | None = None, **more: Any) -> Row:
    return {
        "point_id": point, "grain": "rows", "stratum": stratum, "part": name, "role": role,
        "ns": ns,
    } | more  # fmt: skip


def test_the_smallest_tp_is_the_base_and_strata_are_weighted_by_its_steps(tmp_path: Path) -> None:
    one, two, other = "decode, 1 row", "decode, 2 rows", "decode, 3 to 4 rows"
    points = [WrittenPoint(SAID, tp=tp, batch=2) for tp in (8, 4, 2)]
    points.append(WrittenPoint(SAID, tp=1, batch=2, prompt_tokens=64))  # another load
    strata = [
        stratum(2, one, units=3, lanes=2, tokens=1.0), stratum(2, two, lanes=2, tokens=2.0),
        stratum(2, other, lanes=2, tokens=3.0),
        stratum(0, one, lanes=8, tokens=1.0), stratum(0, two, units=7, lanes=8, tokens=2.0),
        stratum(0, other, lanes=8, tokens=4.0),  # of more tokens than in the base
        stratum(3, one, tokens=1.0),
    ]  # fmt: skip
    parts = [
        # Base: of each of 3 steps and 2 lanes 40 ns of products, 8 of norms, 20 of transfer.
        part(2, one, "computing", 240, "o_proj"), part(2, one, "computing", 48, "input_norm"),
        part(2, one, "exposed_transfer", 120, "mlp_allreduce"),
        part(2, two, "computing", 120, "o_proj"), part(2, two, "idle", 32, cause="host"),
        part(2, other, "computing", 9_999, "o_proj"), part(3, one, "computing", 9_999, "o_proj"),
        # TP 8: of each of 8 lanes.
        part(0, one, "computing", 80, "o_proj"), part(0, one, "computing", 64, "input_norm"),
        part(0, one, "exposed_wait", 160, "mlp_allreduce"),
        part(0, two, "computing", 560, "o_proj"), part(0, two, "exposed_copy", 112, "sample"),
        part(0, two, "idle", 56, cause="host"), part(0, two, "other_step", 112),
        part(0, other, "computing", 9_999, "o_proj"),
    ]  # fmt: skip
    with written(tmp_path, points, profile_stratum=strata, profile_typical_part=parts) as opened:
        row = only(opened.run("tp.overhead").rows())
        roles = {row["role"]: row for row in opened.run("tp.overhead", by="role")}
    assert (row["point"], row["base"]) == ("TP 8, 128 in", "TP 2, 128 in")
    assert (row["tp"], row["base_tp"], row["steps"], row["base_steps"]) == (8, 2, 8, 4)
    # Weights 3/4 and 1/4. Products: 3/4 10 + 1/4 10 less a quarter of 3/4 40 + 1/4 60: 10 - 11.25.
    assert (roles["o_proj"]["step_ns"], roles["o_proj"]["ideal_ns"]) == (10, 11)
    assert roles["o_proj"]["work_ns"] == -1  # it shrinks by more than the ranks grow
    assert (roles["input_norm"]["step_ns"], roles["input_norm"]["ideal_ns"]) == (6, 2)  # 1.5
    assert roles["mlp_allreduce"]["wait_ns"] == 15
    assert roles["mlp_allreduce"]["transfer_ns"] == -4  # 0 - (15 / 4 = 3.75)
    assert row["work_ns"] == -1 + 4
    # A quarter of one step's 2, 1 and 2 ns: half a nanosecond is even.
    assert row["idle_ns"] == round(0.25) - round(0.25 * 16 / 4)
    assert row["tokens_pct"] == 0
    # 3 + 1 of 5 units in the base, 1 + 7 of 9 in the point, which is more.
    assert row["compared_pct"] == pytest.approx(80)


def test_kv_lengths_count_if_both_know_them_and_unknown_tokens_stay_unknown(tmp_path: Path) -> None:
    points = [WrittenPoint(SAID, tp=tp, batch=1) for tp in (1, 2)]
    short, long, plain = "decode, 1 row, KV 1 to 1", "decode, 1 row, KV 2 to 3", "decode, 1 row"
    strata = [stratum(0, short, grain="kv"), stratum(0, plain), stratum(1, plain)]
    parts = [part(point, plain, "computing", 10 * (2 - point), "act") for point in (0, 1)]
    both = [*strata, stratum(1, long, grain="kv")]
    for tables, compared in ((strata, 1), (both, 0)):
        folder = tmp_path / str(compared)
        with written(folder, points, profile_stratum=tables, profile_typical_part=parts) as opened:
            rows = opened.run("tp.overhead").rows()
        assert len(rows) == compared
        for row in rows:
            assert (row["overhead_ns"], row["efficiency_pct"], row["tokens_pct"]) == (0, 100, None)


def test_experts_are_set_against_what_they_exchange(tmp_path: Path) -> None:
    decode = "decode, 1 row"
    points = [
        WrittenPoint(SAID, tp=1, batch=1),
        WrittenPoint(SAID, tp=2, ep=True, batch=1),
        WrittenPoint(SAID, tp=1, dp=2, ep=True, batch=1),
        WrittenPoint(SAID, tp=4, batch=1),
        WrittenPoint(SAID, tp=8, batch=1),  # a dense layer alone
    ]
    strata = [stratum(point, decode, tokens=1.0) for point in range(5)]
    experts = [
        part(point, decode, "computing", ns, role)
        for point in range(4)
        for role, ns in (("experts_gate_up", 60), ("experts_down", 30), ("topk", 10), ("act", 5))
    ]
    exchange = [
        part(1, decode, "exposed_transfer", 40, "mlp_allreduce"),
        part(1, decode, "exposed_copy", 2, "mlp_allreduce"),
        part(1, decode, "exposed_wait", 8, "mlp_allreduce"),
        part(1, decode, "exposed_wait", 7, "attn_allreduce"),
        part(2, decode, "exposed_transfer", 100, "dispatch"),
        part(2, decode, "computing", 50, "combine"),
        part(2, decode, "exposed_transfer", 33, "mlp_allreduce"),
        part(3, decode, "exposed_unmatched", 20, "mlp_allreduce"),
        part(4, decode, "exposed_transfer", 20, "mlp_allreduce"),
    ]
    with written(
        tmp_path, points, profile_stratum=strata, profile_typical_part=[*experts, *exchange]
    ) as opened:
        rows = opened.run("ep.exchange").rows()
    assert [(row["point"], row["form"], row["transfer_ns"], row["wait_ns"]) for row in rows] == [
        ("TP 1", None, 0, 0),
        ("TP 2, EP", "all-reduce", 42, 8),
        ("TP 1, DP 2, EP", "dispatch/combine", 150, 0),
        ("TP 4", "all-reduce", None, None),
    ]
    for row in rows:
        assert total(row, MOE) == row["step_ns"]
        assert row["moe_ns"] + row["rest_ns"] == row["step_ns"]
        assert (row["experts_ns"], row["routing_ns"], row["steps"]) == (90, 10, 1)
    assert [row["exchange_ratio"] for row in rows] == [0, 0.5, 1.5, 0.2]
    assert [row["rest_ns"] for row in rows] == [5, 12, 38, 5]
    assert rows[3]["exchange_pct"] == pytest.approx(100 * 20 / 125)


def bubble(point: int, rank: int, stage: int, computing: int, bubble: int) -> Row:
    return {
        "point_id": point, "rank": rank, "pp_rank": stage, "window_ns": 100,
        "computing_ns": computing, "bubble_ns": bubble, "neither_ns": 100 - computing - bubble,
        "microbatches": 3, "ideal_pct": 25.0,
    }  # fmt: skip


def test_bubbles_are_those_of_stages_and_unknown_if_one_is_missing(tmp_path: Path) -> None:
    points = [WrittenPoint(SAID, tp=2, pp=2, batch=1), WrittenPoint(SAID, pp=4, batch=1)]
    rows = [
        bubble(0, 0, 0, 20, 60), bubble(0, 1, 0, 40, 50), bubble(0, 2, 1, 60, 30),
        bubble(0, 3, 1, 60, 40), bubble(1, 0, 0, 50, 50), bubble(1, 1, 1, 50, 50),
    ]  # fmt: skip
    with written(tmp_path, points, profile_bubble=rows) as opened:
        first, last, *unknown = opened.run("pp.bubble").rows()
    assert (first["stage"], first["ranks"], first["bubble_pct"], first["ideal_pct"]) == (
        0,
        2,
        55,
        25,
    )
    assert (last["bubble_pct"], last["computing_pct"], last["neither_pct"]) == (35, 60, 5)
    assert (first["computing_ratio"], last["computing_ratio"]) == pytest.approx((2 / 3, 4 / 3))
    assert first["imbalance"] == last["imbalance"] == pytest.approx(60 / 45)
    for row in unknown:
        assert (row["bubble_pct"], row["imbalance"], row["computing_pct"]) == (None, None, 50)


def test_a_pipeline_has_no_overhead_of_the_profiler(tmp_path: Path) -> None:
    """Several batches are on their way in it, so that a step is no token."""
    decode, mixed = "decode, 1 row", "mixed, 2 rows"
    points = [
        WrittenPoint(SAID, pp=2, batch=1), WrittenPoint(SAID, batch=1),
        WrittenPoint(SAID, concurrency=1),
    ]  # fmt: skip
    strata, metrics = list[Row](), list[Row]()
    for point in range(3):
        strata += [stratum(point, decode, units=3, lanes=2), stratum(point, mixed, lanes=2)]
        metrics += [
            {"point_id": point, "grain": "rows", "stratum": name, "metric": "interval", "ns": ns}
            for name, ns in ((decode, 10e6), (mixed, 26e6))
        ]
    with written(tmp_path, points, profile_stratum=strata, profile_metric=metrics) as opened:
        opened._con.execute(
            "INSERT INTO repeat (point_id, number, status) "
            "SELECT point_id, 0, 'complete' FROM point"
        )
        opened._con.execute("INSERT INTO profile_note SELECT point_id, TRUE, NULL, NULL FROM point")
        rows = opened.run("profiles").rows()
    # A batch: 10 / 2 lanes. Requests that follow each other: (3 x 5 + 1 x 13) / 4.
    assert [row["interval_ns"] for row in rows] == [5e6, 5e6, 7e6]
    assert [row["overhead_pct"] for row in rows] == [None, 25, 75]


# ---- The chart


def test_negative_parts_go_left_and_a_line_is_at_the_sum() -> None:
    table = pa.table({
        "point": ["TP 2", "TP 4", "TP 2"], "phase": ["decode", "decode", "prefill"],
        "transfer_ns": [3_000_000, None, 20_000_000], "unmatched_ns": [0, 5_000_000, 0],
        "work_ns": [-1_000_000, 500_000, 1_000_000],
        "overhead_ns": [2_000_000, 5_500_000, 21_000_000],
    })  # fmt: skip
    channels = {
        "x": "transfer_ns,unmatched_ns,work_ns", "y": "point", "total": "overhead_ns",
        "panel": "phase",
    }  # fmt: skip
    spec = drawn(table, Chart("parts", channels, "Overhead"), width=720).to_dict()
    decode, prefill = spec["vconcat"]
    assert [panel["title"]["text"] for panel in (decode, prefill)] == ["decode", "prefill"]

    def rows(layer: Any) -> list[Any]:
        found: list[Any] = (
            layer["data"]["values"]
            if "values" in layer["data"]
            else spec["datasets"][layer["data"]["name"]]
        )
        return found

    bars, _zero, texts, ticks = decode["layer"]
    assert [(row["point"], row["part"], row["value"]) for row in rows(bars)] == [
        ("TP 2", "transfer", 3), ("TP 4", "unmatched", 5), ("TP 2", "work", -1),
        ("TP 4", "work", 0.5),
    ]  # fmt: skip
    assert bars["encoding"]["x"]["scale"]["domain"][0] == -1
    assert [(row["high"], row["label"]) for row in rows(texts)] == [(3, "2.000"), (5.5, "5.500")]
    assert [(row["point"], row["total"]) for row in rows(ticks)] == [("TP 2", 2)]
    assert len(prefill["layer"]) == 3  # without negative parts, the bar ends at the sum
