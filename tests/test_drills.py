"""The drill itself: its cases repeat, its oracles know the truth, its judge sees each failure."""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from random import Random

import pytest
import traces

import traceql
from drills.case import Case, Outcome, Verdict
from drills.database_oracle import disagreement
from drills.judging import judged, state
from drills.kinds import kinds, run_directories, tables
from drills.kinds import traces as damaged_traces
from drills.mutants import Mutant, Recipe, smallest
from drills.process import Ended, outcomes
from drills.trace_oracle import truth_of

_MUTANTS: dict[str, tuple[Callable[[Random], Recipe], Callable[[Recipe], Mutant]]] = {
    "json": (damaged_traces.json_recipe, damaged_traces.json_mutant),
    "gzip": (damaged_traces.gzip_recipe, damaged_traces.gzip_mutant),
    "native": (damaged_traces.native_recipe, damaged_traces.native_mutant),
    "rules": (tables.rules_recipe, tables.rules_mutant),
    "model": (tables.model_recipe, tables.model_mutant),
    "run directory": (run_directories.run_directory_recipe, run_directories.run_directory_mutant),
}


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[pytest.mark.slow] if k == "gzip" else []) for k in _MUTANTS]
)
def test_a_mutant_follows_from_seed_kind_and_number(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, mutant = _MUTANTS[kind]
    seconds = count(1_000_000_000)
    monkeypatch.setattr(time, "time", lambda: next(seconds))  # it is in no mutant

    def files(seed: int, number: int) -> object:
        return mutant(recipe(Case(kind, number, seed).random)).files

    numbers = range(6)
    assert [files(1, n) for n in numbers] == [files(1, n) for n in numbers]
    assert [files(1, n) for n in numbers] != [files(2, n) for n in numbers]


def test_each_kind_has_the_name_under_which_it_is_found() -> None:
    assert set(_MUTANTS) <= set(kinds())
    assert {"kill", "no space", "at once", "sql", "server"} <= set(kinds())


@pytest.mark.parametrize("needed", [{3, 7}, {0}, {9}, {2, 3, 4, 8}, set()])
def test_only_what_makes_it_fail_is_left(needed: set[int]) -> None:
    assert smallest(range(10), lambda items: needed <= set(items)) == sorted(needed)


def test_times_of_a_trace_are_exact_and_unclear_events_are_only_counted() -> None:
    text = """{"traceEvents": [
        {"ph": "X", "name": "a", "pid": 1, "tid": "t", "ts": 1712195495406752.8375, "dur": 1e-3},
        {"ph": "X", "name": "b", "pid": 1, "tid": 2, "ts": 5, "ts": 6, "dur": 1},
        {"ph": "X", "name": "c", "pid": 1, "tid": 2, "ts": 1e999990},
        {"ph": "i", "name": "d", "ts": 1}, {"ph": "B", "name": "e", "ts": 1}
    ]}"""
    truth = truth_of(text.encode())
    assert truth
    assert truth.certain == Counter([(1, None, "a", 1712195495406752838, 1)])
    assert (truth.complete, truth.instants) == (3, 1)


@pytest.mark.slow
def test_an_event_that_is_not_in_the_database_is_noticed(tmp_path: Path) -> None:
    events = [traces.host("a", ts=1, dur=2), traces.host("b", ts=3, dur=1, shape=[1])]
    file = traces.write(tmp_path / "rank0.json", *events)
    database = traceql.load([file], tmp_path / "run.duckdb").database
    assert disagreement(database, truth_of(file.read_bytes())) is None
    for other, told in (
        ([*events, traces.host("c", ts=9, dur=1)], "missing"),
        ([events[0], events[1] | {"dur": 2}], "missing"),
        ([events[0], events[1] | {"args": {}}], "arguments"),
        ([events[0]], "2 slices for 1"),
    ):
        truth = truth_of(json.dumps({"traceEvents": other}).encode())
        assert told in (disagreement(database, truth) or "")


@pytest.mark.parametrize(
    ("status", "err", "leaves", "wrong", "verdict"),
    [
        (0, b"", ["out"], None, Verdict.RIGHT),
        (0, b"", ["out"], "an event is missing", Verdict.WRONG),
        (0, b"", ["out", ".draft"], None, Verdict.WRONG),
        (1, b"traceql: no\n", [], None, Verdict.CLEAN_ERROR),
        (1, b"traceql: no\n", ["out"], None, Verdict.WRONG),
        (1, b"traceql: \x1b[31mno\n", [], None, Verdict.WRONG),
        (1, b"traceql: no\nmore\n", [], None, Verdict.WRONG),
        (1, b"traceql: odd; please report this trace\n", [], None, Verdict.TRACEBACK),
        (1, b"Traceback (most recent call last):\n", [], None, Verdict.TRACEBACK),
        (-9, b"", [], None, Verdict.TRACEBACK),
        (None, b"", [], None, Verdict.HANG),
    ],
)
def test_each_way_to_fail_is_seen(
    status: int | None,
    err: bytes,
    leaves: Sequence[str],
    wrong: str | None,
    verdict: Verdict,
    tmp_path: Path,
) -> None:
    before = state(tmp_path)
    for name in leaves:
        (tmp_path / name).touch()
    ended = Ended(["load"], status, b"", err)
    outcome = judged(ended, tmp_path, before, written=["out"], disagreement=lambda: wrong)
    assert outcome.verdict == verdict


def test_a_case_whose_process_dies_counts_as_wrong_and_the_others_go_on() -> None:
    def run(case: Case, folder: Path) -> Outcome:
        if case.number == 1:
            os._exit(3)
        return Outcome(Verdict.RIGHT)

    cases = [Case("any", number, 1) for number in range(3)]
    found = {case.number: outcome.verdict for case, outcome in outcomes(cases, run, jobs=2)}
    assert found == {0: Verdict.RIGHT, 1: Verdict.WRONG, 2: Verdict.RIGHT}
