"""Comparisons of real runs: they add up, mirror each other, and find what was changed."""

from math import isclose
from typing import Any

import databases
import pyarrow.compute as pc
import pytest
from repeats import PLANTED, Profile, change, run, side, with_rows

import traceql
from traceql.runs.compare import Comparison
from traceql.runs.compare.sides import RunProfile, runs_of

TP1, TP4 = "qwen3-8b-tp1-graph", "qwen3-32b-tp4-graph-nccl"
SERVING = "qwen3-8b-tp2-serving"
FEW = (TP1, TP4, SERVING)
# Five starts of a server, as steady as those of a GPU whose clocks are locked.
STEADY = (1.0, 0.998, 1.001, 1.003, 0.997)
OTHER = (0.9985, 1.002, 0.9965, 1.0005, 1.0015)


def compared(base: str, new: str) -> Comparison:
    return Comparison([run(base)], [run(new)])


def deltas(comparison: Comparison, table: str) -> dict[tuple[Any, ...], int]:
    """The differences that waterfall or total has, by what they are of."""
    of = "scope" if table == "waterfall" else "stratum, change"
    rows = comparison.table(f"SELECT {of}, part, role, cause, delta_ns FROM {table}")
    return {tuple(row.values())[:-1]: row["delta_ns"] for row in rows}


def adds_up(comparison: Comparison) -> None:
    """The parts make up the two steps of each scope, and the length of the two recordings."""
    scopes = comparison.table(
        "SELECT scope, SUM(base_ns) AS base, SUM(new_ns) AS new, SUM(delta_ns) AS delta "
        "FROM waterfall GROUP BY scope"
    )
    for row in scopes:
        step = change(comparison, row["scope"], "step")
        # Half a ns is lost where the median step of two lanes is not a whole number.
        assert abs(row["base"] - step["base"]) <= 0.5
        assert abs(row["new"] - step["new"]) <= 0.5
        assert row["delta"] == row["new"] - row["base"]
    assert {row["scope"] for row in scopes} >= set(comparison.scopes)
    base, new = comparison.table(
        "SELECT side, ROUND(ns / lanes) AS ns FROM total_run ORDER BY side"
    )
    assert sum(deltas(comparison, "total").values()) == new["ns"] - base["ns"]


def mirrored(comparison: Comparison, other: Comparison) -> None:
    """The second comparison has the sides of the first one exchanged."""
    for table in ("waterfall", "total"):
        assert deltas(comparison, table) == {k: -ns for k, ns in deltas(other, table).items()}
    opposite = {"faster": "slower", "slower": "faster", "new": "gone", "gone": "new"}
    there = {
        (row["scope"], row["metric"], row["kind"]): row
        for row in other.table("SELECT * FROM change WHERE kind <> 'group'")
    }
    for row in comparison.table("SELECT * FROM change WHERE kind <> 'group'"):
        back = there.pop((row["scope"], row["metric"], row["kind"]))
        assert back["verdict"] == opposite.get(row["verdict"], row["verdict"])
        assert (row["base"], row["new"]) == (back["new"], back["base"])
        if row["percent_of"] == "itself":
            factor = (1 + row["change_pct"] / 100) * (1 + back["change_pct"] / 100)
            assert isclose(factor, 1, rel_tol=1e-9)
        else:
            assert isclose(row["change_pct"], -back["change_pct"], abs_tol=1e-9)
    assert not there


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_a_run_against_itself_differs_in_nothing(name: str) -> None:
    comparison = compared(name, name)
    assert set(deltas(comparison, "waterfall").values()) <= {0}
    assert deltas(comparison, "total") == {}
    assert comparison.differences == ()
    assert comparison.same_recordings
    rows = comparison.table("SELECT * FROM change")
    assert rows
    assert {row["change_pct"] for row in rows} == {0}
    verdicts = {row["verdict"] for row in rows if "waiting" not in row["reason"]}
    assert verdicts == {"no verdict"}


@pytest.mark.slow
@pytest.mark.parametrize(("base", "new"), [(TP1, TP4), (SERVING, TP1), (TP4, SERVING)])
def test_exchanged_sides_turn_the_answer_round(base: str, new: str) -> None:
    comparison = compared(base, new)
    adds_up(comparison)
    mirrored(comparison, compared(new, base))


def test_one_run_a_side_has_differences_and_no_verdict() -> None:
    row = change(compared(TP1, TP1), "decode", "step")
    assert row["verdict"] == "no verdict"
    assert row["reason"] == "one run a side; a verdict needs 4 on each, better 5"
    assert row["low_pct"] is None
    assert row["step_noise_pct"] > 0


@pytest.mark.parametrize("runs", [3, pytest.param(5, marks=pytest.mark.slow)])
def test_repeats_add_up(runs: int) -> None:
    adds_up(Comparison(side(STEADY[:runs]), side(OTHER[:runs])))


def test_slower_repeats_are_slower_and_state_by_how_much() -> None:
    slower = [factor * 1.03 for factor in OTHER]
    comparison = Comparison(side(STEADY), side(slower))
    row = change(comparison, "decode", "step")
    assert row["verdict"] == "slower"
    # Hodges-Lehmann by hand: the median of the 25 ratios.
    ratios = sorted(new / base for new in slower for base in STEADY)
    assert isclose(row["change_pct"], 100 * (ratios[12] - 1), rel_tol=1e-3)
    assert isclose(row["low_pct"], 100 * (ratios[2] - 1), rel_tol=1e-3)
    assert isclose(row["high_pct"], 100 * (ratios[-3] - 1), rel_tol=1e-3)


@pytest.mark.slow
def test_a_slower_role_is_named_with_the_steps_it_makes_longer_and_nothing_else() -> None:
    new = side(OTHER, roles={"qkv_proj": 1.2})
    comparison = Comparison(side(STEADY), new)
    slower = comparison.table(
        "SELECT metric FROM change WHERE scope = 'decode' AND verdict IN ('slower', 'faster')"
    )
    wholes = {"step", "interval", "busy", "computing"}
    assert {row["metric"] for row in slower} == {"qkv_proj", *wholes}


def test_sizes_with_more_tokens_do_not_make_up_for_sizes_with_fewer() -> None:
    base = runs_of([PLANTED / "tp2"])
    new = [RunProfile(one.name, None, _with_tokens(one.profile)) for one in base]
    row = change(Comparison(base, new), "all", "step")
    assert row["verdict"] == "not comparable"
    assert row["reason"].startswith("steps of the same size process up to ")


def _with_tokens(profile: Profile) -> Profile:
    """More tokens in mixed steps, and fewer in decode steps."""
    rows = profile["stratum"].to_pylist()
    for row in rows:
        row["tokens"] *= 2.4 if row["stratum"].startswith("mixed") else 0.5
    return {**profile, "stratum": with_rows(profile["stratum"], rows)}


@pytest.mark.slow
def test_what_one_side_lacks_is_not_compared_and_is_reported() -> None:
    comparison = compared(TP1, SERVING)
    strata = {row["stratum"]: row for row in comparison.table("SELECT * FROM stratum")}
    assert any(not row["is_compared"] for row in strata.values())
    for row in comparison.table("SELECT * FROM coverage"):
        shares = row["compared_pct"] + row["unmatched_pct"] + row["outside_pct"]
        assert isclose(shares, 100, abs_tol=1e-6)
        assert row["unmatched_pct"] > 0


def test_roles_of_one_side_are_new_or_gone() -> None:
    experts = side((1.0,))
    (alone,) = side((1.0,))
    metric = alone.profile["metric"]
    without = metric.filter(pc.not_equal(metric["metric"], "rope"))
    rest = [RunProfile("no rope", None, {**alone.profile, "metric": without})]
    assert change(Comparison(rest, experts), "decode", "rope")["verdict"] == "new"
    assert change(Comparison(experts, rest), "decode", "rope")["verdict"] == "gone"


@pytest.mark.slow
def test_statements_read_both_databases_and_nothing_else() -> None:
    comparison = traceql.diff(databases.trace(TP1).path, databases.trace(SERVING).path)
    assert {"base", "new", "verdict"} <= set(comparison.df().columns)
    (row,) = comparison.sql(
        "SELECT (SELECT COUNT(*) FROM base.kernel) AS tp1, "
        "(SELECT COUNT(*) FROM new.kernel) AS serving"
    )
    tp1, serving = (len(databases.trace(name).sql("FROM kernel")) for name in (TP1, SERVING))
    assert row == {"tp1": tp1, "serving": serving}
    with pytest.raises(traceql.TraceqlError):
        comparison.sql("SELECT * FROM read_text('/etc/hostname')")
    with pytest.raises(traceql.TraceqlError):
        comparison.sql("CREATE TABLE base.x AS SELECT 1")
