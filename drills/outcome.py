"""What became of one case."""

from dataclasses import dataclass
from enum import StrEnum


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


LOSS_TOLD = "the ledger tells of a loss"  # the reason of a right outcome


@dataclass(frozen=True)
class Outcome:
    """A verdict, its reason in one line, and the command that led to it."""

    verdict: Verdict
    reason: str = ""
    command: str = ""
