"""The options that choose a part of a run: --from, --to, --steps and --sample."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from traceql.database.database import Database
    from traceql.database.excerpt import Choice

_Command = TypeVar("_Command", bound=Callable[..., Any])
_TEXTS = {
    "from": "Only what begins from this time on, since the start of the recording: 12.5s, 40ms, "
    "250us, 7ns; a number alone is seconds.",
    "to": "Only what begins before this time.",
    "steps": "Only this step, such as 100, or these, such as 100-110 (step_id, as steps.timeline "
    "lists it), with the same iterations of all ranks.",
    "sample": "Only every so many iterations of each phase, on all ranks.",
}
_METAVARS = {"from": "TIME", "to": "TIME", "steps": "STEP[-STEP]", "sample": "N"}
_NAMES = {"from": "part_from", "to": "part_to", "steps": "part_steps", "sample": "part_sample"}


@dataclass(frozen=True)
class Part:
    """What the options say; each is None where it was not given."""

    start: str | None
    end: str | None
    steps: str | None
    sample: int | None

    @property
    def given(self) -> str | None:
        """The first option that was given, for messages."""
        values = (self.start, self.end, self.steps, self.sample)
        named = zip(_TEXTS, values, strict=True)
        return next((f"--{name}" for name, value in named if value is not None), None)

    @property
    def choice(self) -> "Choice | None":
        from traceql.database.excerpt import chosen

        return chosen(self.start, self.end, self.steps, self.sample)


def part_options(*, without: Collection[str] = ()) -> Callable[[_Command], _Command]:
    """Adds the options; `part_of` takes their values out of the parameters of the command.

    Args:
        without: options that the command has itself.
    """
    options = [
        click.option(
            f"--{name}",
            _NAMES[name],
            type=click.IntRange(1) if name == "sample" else str,
            metavar=_METAVARS[name],
            help=text,
        )
        for name, text in _TEXTS.items()
        if name not in without
    ]

    def add(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def part_of(parameters: dict[str, Any]) -> Part:
    """Takes the values of the options out of the parameters of a command."""
    return Part(*(parameters.pop(name, None) for name in _NAMES.values()))


@contextmanager
def shown_part(trace: "Database", part: Part) -> Iterator["Database"]:
    """The excerpt that the options choose, as long as the block lasts; without them, the trace."""
    choice = part.choice
    if choice is None:
        yield trace
        return
    with trace.excerpt_of(choice) as excerpt:
        yield excerpt
