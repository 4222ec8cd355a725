"""What of a run an excerpt has: a span of time, steps, or a sample of its iterations."""

import re
from dataclasses import dataclass

from traceql.database.excerpt.times import nanoseconds, option
from traceql.errors import TraceqlError

_STEPS = re.compile(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?")


@dataclass(frozen=True)
class Choice:
    """One of a span of time, steps, and a sample.

    Attributes:
        from_ns: start of the span, ns since the run's first event; None for the first event.
        to_ns: its end, which is not in it; None for the end of the recording.
        steps: the first and the last step (step.step_id).
        sample: every so many iterations of each phase.

    Raises:
        TraceqlError: it is none or several of them, or an empty one.
    """

    from_ns: int | None = None
    to_ns: int | None = None
    steps: tuple[int, int] | None = None
    sample: int | None = None

    def __post_init__(self) -> None:
        ways = [self.is_span, self.steps is not None, self.sample is not None]
        if sum(ways) != 1:
            raise TraceqlError(
                "say which part: --from and --to, or --steps, or --sample; one of the three"
            )
        if self.from_ns is not None and self.to_ns is not None and self.from_ns >= self.to_ns:
            raise TraceqlError(
                f"the window is empty: from {option(self.from_ns)} to {option(self.to_ns)}"
            )
        if self.steps is not None and self.steps[0] > self.steps[1]:
            raise TraceqlError(
                f"no steps from {self.steps[0]} to {self.steps[1]}; name the lower one first"
            )
        if self.sample is not None and self.sample < 1:
            raise TraceqlError(f"a sample of every {self.sample}th iteration; give a number from 1")

    @property
    def is_span(self) -> bool:
        return self.from_ns is not None or self.to_ns is not None

    @property
    def options(self) -> str:
        """The options of the command line that say the same."""
        if self.steps is not None:
            first, last = self.steps
            return f"--steps {first}" if first == last else f"--steps {first}-{last}"
        if self.sample is not None:
            return f"--sample {self.sample}"
        start = "" if self.from_ns is None else f"--from {option(self.from_ns)}"
        end = "" if self.to_ns is None else f"--to {option(self.to_ns)}"
        return f"{start} {end}".strip()


def chosen(
    start: str | None, end: str | None, steps: str | None, sample: int | None
) -> Choice | None:
    """What options say; None if there are none.

    Args:
        start: of --from, such as 12.5s.
        end: of --to.
        steps: of --steps: one step, or the first and the last one, such as 100-110.

    Raises:
        TraceqlError: a value cannot be read, or they contradict each other.
    """
    if start is None and end is None and steps is None and sample is None:
        return None
    return Choice(
        None if start is None else nanoseconds(start),
        None if end is None else nanoseconds(end),
        None if steps is None else step_range(steps),
        sample,
    )


def step_range(text: str) -> tuple[int, int]:
    """The first and the last step of a text such as 100 or 100-110.

    Raises:
        TraceqlError: it is neither.
    """
    found = _STEPS.fullmatch(text)
    if found is None:
        raise TraceqlError(f"'{text}' is neither a step nor a range of steps; write 100 or 100-110")
    return int(found[1]), int(found[2] or found[1])
