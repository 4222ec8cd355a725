"""How causes are decided: order, exclusion, time granted once, the profiler's scale, severity."""

from pathlib import Path
from typing import Any

import databases
import numpy as np
import pytest
from databases import cases

from traceql.analysis.diagnosis.catalog import GROUPS, Cause, causes
from traceql.analysis.diagnosis.evaluation import Decision, Units, decisions
from traceql.analysis.diagnosis.texts import explained, milliseconds, saving

MS = 1_000_000


def cause(name: str, **fields: Any) -> Cause:
    head: dict[str, Any] = {
        "summary": name, "title": name, "group": "host", "most": "severe", "after": (),
        "unless": (), "query": "time.lost", "parameters": (), "record": "Record it.",
        "source": "own",
        "needs": (), "empty_unless": (), "sql": "",
    }  # fmt: skip
    return Cause(Path(f"{name}.sql"), **(head | fields))


def units(
    *ns: float, lost: int | None = None, scale: float = 1.0, step_ns: float = 10 * MS
) -> Units:
    """Units of 100 steps on one device, of which the first ones are lost time."""
    count = len(ns) if lost is None else lost
    return Units(
        np.array([100 * one for one in ns]),
        np.arange(len(ns)) < count,
        np.full(len(ns), -1),  # outside of steps, so that the steps do not differ
        100,
        1,
        step_ns,
        scale,
    )


def row(*claims: tuple[int, float], **fields: Any) -> dict[str, Any]:
    claimed = (
        np.array([unit for unit, _ in claims], np.int64),
        np.array([100.0 * ns for _, ns in claims]),
    )
    return {"is_confirmed": True, "headline": "It is.", "claims": claimed} | fields


def decided(
    known: list[Cause], rows: dict[str, dict[str, Any]], time: Units
) -> dict[str, Decision]:
    return {one.cause.name: one for one in decisions({c.name: c for c in known}, rows, time)}


def test_each_nanosecond_is_granted_once_and_to_the_first_that_claims_it() -> None:
    known = [cause("first"), cause("second")]
    rows = {"first": row((0, 3 * MS)), "second": row((0, 4 * MS), (1, 1 * MS))}
    found = decided(known, rows, units(4 * MS, 2 * MS))
    assert found["first"].saving_ns == pytest.approx(3 * MS)
    assert found["second"].saving_ns == pytest.approx(2 * MS)


def test_no_cause_is_granted_more_than_there_is() -> None:
    found = decided([cause("one")], {"one": row((0, 9 * MS), (0, 9 * MS))}, units(4 * MS))
    assert found["one"].saving_ns == pytest.approx(4 * MS)


def test_a_confirmed_cause_rules_another_one_out_and_keeps_its_time() -> None:
    known = [cause("special"), cause("general", unless=("special",))]
    rows = {"special": row((0, 2 * MS)), "general": row((0, 4 * MS))}
    found = decided(known, rows, units(4 * MS))
    assert (found["general"].state, found["general"].reason) == (
        "ruled out",
        "explained by special (special)",
    )
    rows["special"]["is_confirmed"] = False
    found = decided(known, rows, units(4 * MS))
    assert found["general"].state == "confirmed"
    assert found["general"].saving_ns == pytest.approx(4 * MS)


def test_a_cause_whose_time_others_explain_is_ruled_out() -> None:
    known = [cause("special"), cause("other"), cause("general")]
    rows = {"special": row((0, 4 * MS)), "other": row((1, 2 * MS)), "general": row((0, 3 * MS))}
    found = decided(known, rows, units(4 * MS, 2 * MS))
    assert found["general"].reason == "explained by special (special)"


def test_a_remark_rules_nothing_out() -> None:
    """It saves 0.1 ms of a step of 10 ms."""
    known = [cause("special"), cause("general", unless=("special",))]
    rows = {"special": row((0, 0.1 * MS)), "general": row((0, 4 * MS))}
    found = decided(known, rows, units(4 * MS))
    assert (found["special"].severity, found["general"].state) == ("remark", "confirmed")


def test_a_cause_without_a_row_or_a_decision_says_what_to_record() -> None:
    known = [cause("absent"), cause("unsure"), cause("out")]
    rows = {
        "unsure": row(is_confirmed=None, reason="one rank was loaded"),
        "out": row(is_confirmed=False, reason="the run has one rank"),
    }
    found = decided(known, rows, units(4 * MS))
    assert {name: (one.state, one.reason) for name, one in found.items()} == {
        "absent": ("undecided", "Record it."),
        "unsure": ("undecided", "one rank was loaded"),
        "out": ("ruled out", "the run has one rank"),
    }


@pytest.mark.parametrize(
    ("claimed_ms", "fields", "severity"),
    [
        (1.0, {}, "severe"),
        (0.99, {}, "notable"),
        (0.2, {}, "notable"),
        (0.19, {}, "remark"),
        (1.0, {"samples": 9}, "notable"),
        (0.5, {"is_remark": True}, "remark"),
        (0.0, {"gain_pct": 20}, "severe"),
        (0.0, {"gain_pct": 5}, "notable"),
        (0.0, {"gain_pct": 4}, "remark"),
        (0.0, {"saving_ns": 1 * MS}, "severe"),
    ],
)
def test_severity_follows_the_saving(
    claimed_ms: float, fields: dict[str, Any], severity: str
) -> None:
    """Of a step of 10 ms."""
    found = decided([cause("one")], {"one": row((0, claimed_ms * MS), **fields)}, units(4 * MS))
    assert found["one"].severity == severity
    capped = decided(
        [cause("one", most="notable")], {"one": row((0, claimed_ms * MS), **fields)}, units(4 * MS)
    )
    assert capped["one"].severity == ("notable" if severity == "severe" else severity)


def test_lost_time_is_scaled_to_the_run_without_the_profiler_and_kernels_are_not() -> None:
    time = units(4 * MS, 2 * MS, lost=1, scale=0.5)
    found = decided([cause("one")], {"one": row((0, 4 * MS), (1, 1 * MS))}, time)
    assert found["one"].saving_ns == pytest.approx(3 * MS)
    assert found["one"].explained_ns == pytest.approx(2 * MS)


def test_without_that_run_the_saving_may_be_a_third() -> None:
    found = decided([cause("one")], {"one": row((0, 4 * MS))}, units(4 * MS, scale=np.nan))
    one = found["one"]
    assert [one.saving_ns, one.low_ns] == pytest.approx([4 * MS, 1.4 * MS])


def test_the_interval_is_two_standard_errors_of_the_mean() -> None:
    """Steps that lose 1 and 3 ms: mean 2, deviation sqrt 2, error 1."""
    time = Units(
        np.array([1.0 * MS, 3.0 * MS]), np.ones(2, np.bool_), np.arange(2), 2, 1, 10 * MS, 1.0
    )
    (one,) = decisions(
        {"one": cause("one")},
        {"one": {"is_confirmed": True, "claims": (np.arange(2), np.full(2, 3.0 * MS))}},
        time,
    )
    assert [one.low_ns, one.saving_ns, one.high_ns] == pytest.approx([0, 2 * MS, 4 * MS], abs=1)


def test_savings_in_words() -> None:
    found = {
        "saving_ns": 5_900_000, "saving_low_ns": 5_200_000, "saving_high_ns": 6_600_000,
        "saving_pct": 55.2, "gain_pct": None,
    }  # fmt: skip
    assert saving(found) == "5.9 ms a step (55%), between 5.2 ms and 6.6 ms"
    assert saving(found | {"saving_ns": None, "gain_pct": 18.4}) == "18% more tokens a second"
    assert saving(found | {"saving_ns": None}) is None
    assert [milliseconds(ns) for ns in (123_456_789, 1_249_999, 140_000)] == [
        "123 ms", "1.2 ms", "0.14 ms",
    ]  # fmt: skip
    lost = {
        "lost_ns": 12_400_000, "step_ns": 15_000_000, "explained_pct": 82.4, "is_unprofiled": True,
        "reasons": ["host 97%"],
    }  # fmt: skip
    assert explained(lost) == (
        "The findings explain 82% of 12.4 ms lost per step (83% of a step); 18% has no known cause."
    )
    assert explained(lost | {"explained_pct": 0.2, "is_unprofiled": False}) == (
        "No finding explains the 12.4 ms lost per step "
        "(83% of a step, as recorded with the profiler). "
        "Lost time by reason: host 97% (time.lost); info --all lists what to record."
    )


# --- the catalogue and real runs -----------------------------------------------------------------


def test_every_cause_has_what_a_reader_needs() -> None:
    for name, one in causes().items():
        assert one.summary.endswith("."), name
        assert one.group in GROUPS, name
        assert not one.title.endswith("."), name
        assert one.record.endswith("."), name


@pytest.mark.slow
@pytest.mark.parametrize("run", cases(list(databases.RUNS)))
def test_findings_of_real_runs_keep_the_contract(run: str) -> None:
    """Severe ones first; savings of lost time at most that; a place within the recording."""
    trace = databases.trace(run)
    found = trace.run("overview.findings").rows()
    assert [row["rank_order"] for row in found] == list(range(1, len(found) + 1))
    severities = [row["severity"] for row in found]
    assert severities == sorted(severities, key=["severe", "notable", "remark"].index)
    assert len({row["cause"] for row in found}) == len(found)
    states = trace.run("overview.causes").rows()
    assert {row["cause"] for row in states} == set(causes())
    assert all(row["reason"] for row in states)
    explained_ns = sum(row["explained_ns"] for row in states)
    for lost in trace.run("overview.lost"):
        assert explained_ns <= lost["lost_ns"] * (1 + 1e-9)
    for row in found:
        assert len(row["headline"].split()) <= 15, row["headline"]
        assert row["evidence"], row["cause"]
        assert row["remedy"], row["cause"]
        assert trace.query(row["query"], **dict(row["parameters"])) is not None
        if row["saving_ns"] is not None:
            assert 0 <= row["saving_low_ns"] <= row["saving_ns"] <= row["saving_high_ns"]
        if row["ts"] is not None:
            place = {"rank": row["rank"], "ts": row["ts"], "end": row["ts"] + (row["dur"] or 0)}
            assert trace.select(
                "SELECT 1 FROM device_timeline WHERE rank = $rank GROUP BY rank "
                "HAVING MIN(ts) <= $ts AND $end <= MAX(ts + dur)",
                place,
            ).rows()
