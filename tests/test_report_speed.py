"""The section on the speed of light: only where costs are known, with one picture of all phases."""

import databases
import pyarrow as pa
import pytest

from traceql.query.catalog import catalog
from traceql.report.facts import Answer, answers
from traceql.report.phases import is_of_phases
from traceql.report.sections import SECTIONS
from traceql.result import Result

(SPEED,) = (section for section in SECTIONS if section.name == "speed")


def answered(name: str, **columns: list[object]) -> Answer:
    query = catalog()[name]
    (figure, section) = next(
        (figure, section) for section in SECTIONS for figure in section.figures
        if figure.query == name
    )  # fmt: skip
    return Answer(section, figure, query, Result(pa.table(columns), query.head.chart, limit=3))


@pytest.mark.slow
def test_the_section_is_there_where_the_work_of_kernels_is_known() -> None:
    shown = list(answers(databases.trace(databases.RUN_DIRECTORY)))
    names = [answer.query.name for answer in shown if answer.section == SPEED]
    assert names == [
        "step.floor", "step.waterfall", "roofline.points", "model.mfu", "efficiency.roles",
        "efficiency.layers",
    ]  # fmt: skip
    unknown = answers(databases.trace("mi300x-resnet-training"))
    assert not [answer for answer in unknown if answer.section == SPEED]


@pytest.mark.parametrize(
    ("phases", "expected"),
    [(["decode", "prefill"], False), ([None, "decode"], True), (["decode"] * 3, True)],
)
def test_charts_with_all_phases_are_not_drawn_for_each(
    phases: list[object], expected: bool
) -> None:
    """Three rows are all that the limit allows, so rows of a phase may be missing."""
    assert is_of_phases(answered("efficiency.roles", phase=phases)) is expected


def test_a_chart_without_phases_is_drawn_for_each() -> None:
    assert is_of_phases(answered("kernels.top", phase=["decode"]))
    assert not is_of_phases(answered("step.waterfall", phase=[None]))
