"""The queries over the runs of a lake, on small tables whose answers are counted by hand."""

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from traceql.database.tables import result
from traceql.result import Result
from traceql.runs.compare.verdict import judged
from traceql.runs.lake.lake import fleet_queries, interval_places
from traceql.runs.lake.manifest import COLUMNS
from traceql.runs.lake.tables import RUN, stored_tables
from traceql.sql.query import bound

pytestmark = pytest.mark.slow

Rows = Sequence[Mapping[str, Any]]
TEN = range(10)


def asked(name: str, tables: Mapping[str, Rows], **parameters: Any) -> Result:
    """The rows of a query over tables of these rows; columns that a row lacks are NULL."""
    query = fleet_queries()[name]
    with lake_of(tables) as con:
        return result(con, query.sql, bound(query, parameters), query.head.chart)


def lake_of(tables: Mapping[str, Rows]) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    described = {
        one.name: [(RUN, "VARCHAR"), *zip(one.names, (c.type for c in one.columns), strict=True)]
        for one in stored_tables().values()
    }
    described["lake_run"] = [(one.name, one.type) for one in COLUMNS]
    for name, columns in described.items():
        con.execute(f"CREATE TABLE {name} ({', '.join(f'{one} {kind}' for one, kind in columns)})")
        if rows := tables.get(name):
            none = dict.fromkeys(key for one in rows for key in one)
            con.register("given", pa.Table.from_pylist([none | dict(one) for one in rows]))
            con.execute(f"INSERT INTO {name} BY NAME FROM given")
    con.register("places", interval_places())
    con.execute("CREATE TABLE interval_place AS FROM places")
    return con


def run(name: str, **facts: Any) -> dict[str, Any]:
    return {"run": name, "status": "ok", "setup": "s", "model": "m", "gpu_name": "H200", **facts}


@pytest.mark.parametrize("name", fleet_queries())
def test_head_describes_the_statement(name: str) -> None:
    query = fleet_queries()[name]
    (statement,) = duckdb.extract_statements(query.sql)
    assert statement.type == duckdb.StatementType.SELECT
    assert statement.named_parameters == {p.name for p in query.head.parameters}
    with lake_of({}) as con:
        described = con.sql(f"DESCRIBE {query.sql}", params=bound(query, {})).fetchall()
        assert [(row[0], row[1]) for row in described] == [
            (column.name, column.type) for column in query.head.columns
        ]
        for parameter in query.head.parameters:
            for value in parameter.values:
                assert not len(result(con, query.sql, bound(query, {parameter.name: value})))
    assert query.head.empty
    assert query.head.chart


def ranks(**more: Any) -> dict[str, Any]:
    parts = ("computing", "exposed_transfer", "exposed_wait", "exposed_unmatched", "exposed_copy")
    none = {f"{part}_ns": 0 for part in (*parts, "idle", "caused_wait", "idle_host")}
    return {"rank": 0, "pp_rank": 0, "device_name": "H200", **none, "window_ns": 1_000, **more}


def test_runs_add_up_their_ranks_and_keep_failures() -> None:
    tables = {
        "lake_run": [
            run("a", started="2026-01-01", hosts=["h1", "h2"]),
            {"run": "b", "status": "failed", "error": "no trace"},
        ],
        "rank_summary": [
            ranks(run="a", rank=0, computing_ns=700, idle_ns=300),
            ranks(run="a", rank=1, computing_ns=400, idle_ns=600),
        ],
    }
    first, second = asked("fleet.runs", tables).rows()
    times = ("window_ns", "computing_ns", "idle_ns")
    assert [first[name] for name in times] == [2_000, 1_100, 900]
    assert [second[name] for name in times] == [None, None, None]
    assert (first["host"], second["error"]) == ("h1, h2", "no trace")


def test_waits_of_a_host_are_those_of_its_ranks() -> None:
    tables = {
        "lake_run": [run("a"), run("b", model="n")],
        "rank_summary": [
            ranks(run="a", rank=0, host="slow", caused_wait_ns=500, idle_host_ns=200),
            ranks(run="a", rank=1, host="fast", exposed_wait_ns=500),
            ranks(run="b", rank=0, host="fast", exposed_wait_ns=100, window_ns=3_000),
        ],
    }
    rows = asked("fleet.waits", tables).rows()
    names = ("name", "runs", "wait_pct", "caused_pct", "idle_host_pct")
    shares = [tuple(one[name] for name in names) for one in rows]
    assert shares == [("fast", 2, 15.0, 0.0, 0.0), ("slow", 1, 0.0, 50.0, 20.0)]
    assert rows[1]["run"] == "a"
    assert [one["name"] for one in asked("fleet.waits", tables, by="model")] == ["m", "n"]


def worked(slow: Mapping[int, float]) -> dict[str, Rows]:
    """Ten GPUs on five hosts, two a host, that do the same two roles; some slower by a factor."""
    spread = [1 + (number - 4.5) / 10_000 for number in TEN]

    def role(number: int, name: str, median_ns: float, is_comm: bool = False) -> dict[str, Any]:
        return {
            "run": f"r{number}", "rank": 0, "phase": "decode", "rows_to": 8, "role": name,
            "steps": 10, "is_comm": is_comm, "median_ns": round(median_ns),
        }  # fmt: skip

    return {
        "lake_run": [run(f"r{n}") for n in TEN],
        "rank_summary": [
            ranks(run=f"r{n}", gpu=f"g{n}", host=f"h{n // 2}", path=f"/{n}.json") for n in TEN
        ],
        "role_summary": [
            role(n, name, ns * spread[n] * slow.get(n, 1))
            for n in TEN
            for name, ns in (("attention", 2_000_000), ("o_proj", 1_000_000))
        ]
        + [role(0, "attn_allreduce", 9_000_000, is_comm=True)],
    }


def test_a_gpu_or_host_is_a_straggler_if_it_is_slower_than_its_peers() -> None:
    rows = asked("fleet.stragglers", worked({7: 1.05})).rows()
    assert [one["gpu"] for one in rows if one["verdict"] == "slower"] == ["g7"]
    first = rows[0]
    of = [first[name] for name in ("gpu", "host", "run", "path")]
    assert of == ["g7", "h3", "r7", "/7.json"]
    assert (first["peers"], first["compared"], first["role"]) == (10, 2, "attention")
    for column in ("slow_pct", "low_pct", "high_pct"):
        assert first[column] == pytest.approx(5, abs=0.1)
    # The spread of the others is below 0.5% of the median, which counts instead: 5% / 0.5%.
    assert first["z"] == pytest.approx(10, abs=0.1)
    rows = asked("fleet.stragglers", worked({6: 1.1, 7: 1.1}), by="host").rows()
    slower = [(one["host"], one["gpu"], one["runs"]) for one in rows if one["verdict"] == "slower"]
    assert slower == [("h3", None, 2)]
    tables = worked({})
    apart = [{**one, "setup": one["run"]} for one in tables["lake_run"]]  # no peers
    assert not len(asked("fleet.stragglers", {**tables, "lake_run": apart}))


def commits(base: Sequence[float], new: Sequence[float]) -> dict[str, Rows]:
    """Runs of two commits, whose mean time of attention in a step is this, ns.

    They have two strata of 2 and 1 steps on two lanes: (2 x value + 1 x value) / 3.
    """
    given = [("old", value) for value in base] + [("new", value) for value in new]
    strata = [
        (f"r{number}", stratum, units, value + more)
        for number, (_, value) in enumerate(given)
        for stratum, units, more in (("8 rows", 2, -10), ("16 rows", 1, 20))
    ]
    return {
        "lake_run": [
            run(f"r{number}", git_commit=commit, started=f"2026-01-{number + 1:02}")
            for number, (commit, _) in enumerate(given)
        ],
        "profile_stratum": [
            {"run": name, "grain": "rows", "stratum": stratum, "phase": "decode", "units": units,
             "lanes": 2}
            for name, stratum, units, _ in strata
        ],
        "profile_metric": [
            {"run": name, "grain": "rows", "stratum": stratum, "kind": "role",
             "metric": "attention", "ns": 2.0 * value}
            for name, stratum, _, value in strata
        ],
    }  # fmt: skip


BASE = (1_000.0, 1_004.0, 1_002.0, 999.0, 1_001.0)


@pytest.mark.parametrize(
    "new",
    [
        pytest.param((1_050.0, 1_052.0, 1_049.0, 1_055.0), id="slower"),
        pytest.param((1_050.0, 990.0, 1_000.0, 1_020.0), id="inconclusive"),
        pytest.param((1_050.0, 1_049.0), id="no verdict"),
    ],
)
def test_regressions_have_the_statistics_of_a_comparison(
    new: tuple[float, ...], request: pytest.FixtureRequest
) -> None:
    (row,) = asked("fleet.regressions", commits(BASE, new))
    expected = judged(BASE, new, whole=1_000)
    assert row["verdict"] == expected.verdict == request.node.callspec.id
    assert (row["base_commit"], row["new_commit"]) == ("old", "new")
    assert (row["base_runs"], row["new_runs"]) == (len(BASE), len(new))
    assert (row["base_ns"], row["new_ns"]) == pytest.approx((expected.base, expected.new))
    assert row["change_pct"] == pytest.approx(100 * expected.shift.estimate)
    for name, bound_ in (("low_pct", expected.shift.low), ("high_pct", expected.shift.high)):
        assert row[name] == (None if bound_ is None else pytest.approx(100 * bound_))
    assert row["new_run"] == f"r{len(BASE) + len(new) - 1}"


def test_efficiency_counts_runs_by_their_time() -> None:
    used = [("a", 10.0, 30.0, 100), ("b", 20.0, 60.0, 300), ("c", None, None, 50)]
    tables = {
        "lake_run": [run(name) for name, *_ in used],
        "utilization": [
            {"run": name, "phase": "decode", "mfu_pct": mfu, "mbu_pct": mbu, "wall_ns": wall,
             "missing": None if mfu else "shapes"}
            for name, mfu, mbu, wall in used
        ],
    }  # fmt: skip
    (row,) = asked("fleet.efficiency", tables)
    assert (row["runs"], row["mfu_pct"], row["mbu_pct"]) == (3, 17.5, 52.5)
    assert (row["least_mbu_pct"], row["most_mbu_pct"], row["least_run"]) == (30, 60, "a")
    assert (row["wall_ns"], row["missing_runs"]) == (450, 1)


def test_coverage_shows_the_worst_run_first() -> None:
    checks = [
        ("good", "time classified other", 0, 100, True),
        ("bad", "time classified other", 5, 100, False),
        ("bad", "time without a layer or role", 30, 200, True),
        ("bad", "clock shift", 7, None, None),
    ]
    tables = {
        "lake_run": [run("good"), run("bad"), {"run": "no", "status": "failed", "error": "e"}],
        "ledger": [
            {"run": name, "rank": 0, "check_name": check, "value": value, "total": total, "ok": ok}
            for name, check, value, total, ok in checks
        ],
    }
    rows = asked("fleet.coverage", tables).rows()
    found = [(one["run"], one["checks"], one["failed_checks"]) for one in rows]
    assert found == [("no", None, None), ("bad", 2, 1), ("good", 1, 0)]
    assert rows[1]["first_failed"] == "rank 0: time classified other"
    assert (rows[1]["unclassified_pct"], rows[1]["unattributed_pct"]) == (5, 15)
    assert [one["run"] for one in asked("fleet.coverage", tables, failed=True)] == ["no", "bad"]


def test_outliers_are_far_from_the_steps_of_all_runs() -> None:
    lengths = [("a", 100), ("a", 101), ("a", 99), ("b", 100), ("b", 102), ("b", 98), ("b", 100)]
    steps = [*lengths, ("b", 150)]
    tables = {
        "lake_run": [run("a"), run("b", source="/b")],
        "rank_summary": [ranks(run="a"), ranks(run="b", path="/b/0.json", gpu="g")],
        "step_summary": [
            {"run": name, "rank": 0, "number": number, "step_id": number, "rows_to": 8,
             "phase": "decode", "ts": 0, "gpu_ns": ns, "wait_ns": 0, "idle_ns": 0}
            for number, (name, ns) in enumerate(steps)
        ],
    }  # fmt: skip
    rows = asked("fleet.outliers", tables).rows()
    # Their distances from the median of 100 are 0, 0, 0, 1, 1, 2, 2 and 50, with a median of 1.
    found = [(one["run"], one["number"], one["lost_ns"], one["peers"]) for one in rows]
    assert found == [("b", 7, 50, 8)]
    assert rows[0]["z"] == pytest.approx(50 / 1.4826)
    assert (rows[0]["path"], rows[0]["gpu"], rows[0]["source"]) == ("/b/0.json", "g", "/b")
