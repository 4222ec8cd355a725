"""A kind of drill, its cases, and their outcomes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random


class Verdict(StrEnum):
    """The columns of the table; the last three must be 0."""

    RIGHT = "right"
    CLEAN_ERROR = "clean error"
    WRONG = "wrong"
    TRACEBACK = "traceback"
    HANG = "hang"

    @property
    def is_failure(self) -> bool:
        return self in (Verdict.WRONG, Verdict.TRACEBACK, Verdict.HANG)


LOSS_TOLD = "the ledger reports a loss"  # the reason of a right outcome


@dataclass(frozen=True)
class Outcome:
    """A verdict, its reason in one line, and the command that led to it."""

    verdict: Verdict
    reason: str = ""
    command: str = ""


@dataclass(frozen=True)
class Case:
    """One case: everything random in it follows from these three values."""

    kind: str
    number: int
    seed: int

    @property
    def random(self) -> Random:
        """A new generator, which yields the same numbers each time."""
        return Random(f"{self.seed}/{self.kind}/{self.number}")


@dataclass(frozen=True)
class Kind:
    """A kind of drill.

    Attributes:
        count: the number of cases, given those of mutants of each kind of input, and of kills.
        run: runs a case in an empty folder, in a process that was forked for it.
        prepare: called once before the cases, in the process from which they are forked.
        smaller: writes a smaller input with the same verdict into a folder, and says in lines what
            is left; None if the cases of this kind cannot be made smaller.
    """

    name: str
    count: Callable[[int, int], int]
    run: Callable[[Case, Path], Outcome]
    prepare: Callable[[], object] = lambda: None
    smaller: Callable[[Case, Outcome, Path], Sequence[str]] | None = None
