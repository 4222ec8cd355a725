"""Comparisons of some ranks of several: waiting that no side can tell is never called work."""

from typing import Any

import pytest
from repeats import change, outcome, side

from traceql.database.terminology import terminology
from traceql.runs.compare import Comparison
from traceql.runs.compare.sentences import roots
from traceql.runs.gate.decision import Verdict

ONE_OF_TWO = "qwen3-8b-tp2-serving"  # rank 0 alone is bundled
REASON = "it includes waiting for ranks that are not loaded"


@pytest.mark.slow
def test_work_that_includes_waiting_has_no_verdict() -> None:
    with Comparison(side(of=ONE_OF_TWO), side(of=ONE_OF_TWO, slower=1.5)) as comparison:
        for metric in ("busy", "attn_allreduce", "embed"):
            row = change(comparison, "decode", metric)
            assert (row["verdict"], row["reason"]) == ("not comparable", REASON)
        for metric in ("step", "computing", "qkv_proj", "exposed_comm"):
            assert change(comparison, "decode", metric)["verdict"] == "slower"


@pytest.mark.slow
def test_a_gate_says_what_is_unknown_without_the_other_ranks() -> None:
    base, new = side(of=ONE_OF_TWO), side(of=ONE_OF_TWO, slower=1.5)
    found = outcome(base, new, "decode.exposed_transfer > 5%")
    assert found.verdict is Verdict.NOT_COMPARABLE
    assert found.reason.endswith("exposed_transfer is unknown; use exposed_comm")
    assert outcome(base, new, "decode.busy > 5%").reason == REASON
    assert outcome(base, new, "decode.exposed_comm > 5%").verdict is Verdict.REGRESSION


class _Rows:
    """A comparison of GPUs that has these rows."""

    terminology = terminology(["pytorch"])

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def table(self, sql: str, **_: object) -> list[dict[str, Any]]:
        return self._rows if "root" in sql else [{"base": 3_345_000.0}]


def _root(rank: int, base: list[int], new: list[int]) -> dict[str, Any]:
    """What a rank costs in five runs a side, µs."""
    sides = {"base_values": [1e3 * v for v in base], "new_values": [1e3 * v for v in new]}
    middles = {name[:-7]: sorted(values)[2] for name, values in sides.items()}
    certain = {"verdict": "slower", "low_pct": 10.0, "high_pct": 50.0, "percent_of": "step"}
    return {"metric": f"rank {rank}: host", **sides, **middles, **certain}


def test_a_rank_that_took_over_the_blame_of_another_is_not_named() -> None:
    # Recorded: in base, now one rank is late and now the other; in new, it is always rank 0.
    base = ([2619, 2023, 0, 11, 1281], [0, 439, 2744, 2586, 81])
    new = ([3229, 3122, 2572, 5209, 3212], [155, 263, 914, 0, 3])
    rows = [_root(rank, base[rank], new[rank]) for rank in (0, 1)]
    rows[1]["verdict"] = "inconclusive"
    assert list(roots(_Rows(rows), "decode")) == []  # type: ignore[arg-type]


def test_a_rank_that_costs_more_than_any_did_before_is_named() -> None:
    rows = [
        _root(0, [100, 90, 110, 95, 105], [100, 95, 105, 90, 110]),
        _root(1, [100, 110, 90, 105, 95], [3100, 3200, 3000, 3050, 3150]),
    ]
    rows[0]["verdict"] = "inconclusive"
    (told,) = roots(_Rows(rows), "decode")  # type: ignore[arg-type]
    assert told.startswith("Rank 1 (host): each GPU loses 3.000 ms more per step")
