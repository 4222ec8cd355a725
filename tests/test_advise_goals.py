"""The language of goals."""

import pytest

from traceql.errors import GoalInvalid
from traceql.plan.advise.ranking import Goal, parsed_goal


def test_limits_are_in_nanoseconds_whatever_their_unit() -> None:
    assert parsed_goal("tpot < 20ms, ttft < 0.5 s, min gpus") == Goal(
        "min gpus", {"tpot": 20e6, "ttft": 500e6}
    )
    assert parsed_goal("TPOT<900us").limits == {"tpot": 900e3}


def test_without_an_aim_throughput_counts() -> None:
    assert parsed_goal("tpot < 20ms").aim == "max throughput"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("max thruput", "did you mean 'max throughput'"),
        ("min latency", "'min latency'"),
        ("tpto < 20ms", "did you mean 'tpot'"),
        ("tpot < 20", "no unit of time; use us, ms or s"),
        ("tpot < 20 minutes", "no unit of time"),
        ("tpot 20ms", "cannot parse 'tpot 20ms'"),
        ("", "cannot parse ''"),
        ("tpot < 20ms, tpot < 30ms", "limits tpot twice"),
        ("max throughput, min tpot", "two aims, max throughput and min tpot"),
    ],
)
def test_wrong_goal_is_one_line_that_says_what_to_write(text: str, told: str) -> None:
    with pytest.raises(GoalInvalid) as error:
        parsed_goal(text)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
