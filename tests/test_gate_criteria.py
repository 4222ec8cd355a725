"""Criteria of a gate, as people write them: what they mean, and what is wrong with others."""

import csv
import tomllib

import databases
import pytest
from repeats import side

from traceql.errors import CriterionInvalid
from traceql.runs.gate.criterion import criteria, criterion, metrics

_LAYERS = databases.ROOT / "traceql" / "analysis" / "layers"


@pytest.mark.parametrize(
    ("written", "scope", "metric", "limit"),
    [
        ("decode.step > 2%", "decode", "step", 2),
        ("exposed_comm>5 %", "all", "exposed_comm", 5),
        ("all.step > 2.5%", "all", "step", 2.5),
        ("idle.host > 3%", "all", "idle.host", 3),
        ("decode.idle.host > 3%", "decode", "idle.host", 3),
        ("idle.step > 3%", "idle", "step", 3),
        ("mixed.qkv_proj > +1%", "mixed", "qkv_proj", 1),
        ("input_norm+mlp_allreduce > 1%", "all", "input_norm+mlp_allreduce", 1),
        ("ttft > 10%", None, "ttft", 10),
        ("tokens_per_second < -5%", None, "tokens_per_second", 5),
    ],
)
def test_a_criterion_has_a_scope_a_metric_and_a_limit(
    written: str, scope: str | None, metric: str, limit: float
) -> None:
    found = criterion(written)
    assert (found.scope, found.metric.name, found.limit_pct) == (scope, metric, limit)
    assert criterion(str(found)) == found


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("decode.step", "is not a criterion; write METRIC > X%"),
        ("", "is not a criterion"),
        ("decode.step > 2", 'has no percent sign; write "decode.step > 2%"'),
        ("decode.step > nan%", "is not a criterion"),
        ("decode.step > 2% ; x", "is not a criterion"),
        (
            "decode.stepp > 2%",
            "there is no metric 'stepp'; did you mean 'decode.step' or 'decode.other_step'?",
        ),
        ("decode.tpott > 2%", "there is no metric 'tpott'; did you mean 'tpot'?"),
        ("decod.step > 2%", "there is no phase 'decod'; did you mean 'decode'?"),
        ("decode.ttft > 2%", "ttft is of whole runs"),
        ("gpu_time > 2%", "there is no metric 'gpu_time'; there are step, interval,"),
        ("step > 0%", "a limit of 0%"),
        ("decode.step < -2%", 'less decode.step is not a regression; write "decode.step > 2%"'),
        ("decode.step > -2%", 'write "decode.step > 2%"'),
        ("decode.step < 2%", 'write "decode.step > 2%"'),
        ("tokens_per_second > 5%", 'write "tokens_per_second < -5%"'),
        ("tokens_per_second < -100%", "cannot fall by 100%"),
    ],
)
def test_a_wrong_criterion_is_one_line_that_says_what_is_meant(written: str, told: str) -> None:
    with pytest.raises(CriterionInvalid) as error:
        criterion(written)
    assert told in str(error.value)


def test_two_criteria_about_one_metric_are_an_error() -> None:
    with pytest.raises(CriterionInvalid, match="two criteria are about step"):
        criteria(["step > 2%", "all.step > 3%"])


def test_every_role_is_a_metric() -> None:
    parts = tomllib.loads((_LAYERS / "parts.toml").read_text(encoding="utf-8")).values()
    outside = tomllib.loads((_LAYERS / "outside.toml").read_text(encoding="utf-8")).values()
    roles = {row[0] for part in parts for row in part["roles"] if row[0]}
    roles |= {row[0] for group in outside for row in group}
    for name, column in (("modules.csv", "role"), ("symbols.csv", "role_outside_layers")):
        with (_LAYERS / name).open(encoding="utf-8", newline="") as file:
            roles |= {row[column] for row in csv.DictReader(file) if row[column]}
    assert roles <= {one.name for one in metrics().values() if one.kind == "role"}


def test_every_metric_of_a_comparison_can_be_gated() -> None:
    found = side()[0].profile["metric"].to_pylist()
    assert {row["metric"] for row in found if row["kind"] != "root"} <= set(metrics())
