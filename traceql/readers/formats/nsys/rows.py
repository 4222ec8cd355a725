"""Rows of a table that are events of one kind."""

from collections.abc import Sequence
from dataclasses import dataclass

from traceql.readers.formats.nsys.term import Term, columns_of
from traceql.readers.formats.nsys.terms import ALWAYS, NEVER, ZERO, column


@dataclass(frozen=True)
class Rows:
    """Rows of one kind.

    Attributes:
        table: the table.
        owner: what tells the rank of a row.
        start: the column of the time of a row.
        where: the condition for rows of this kind.
        kept: the condition for those of them that are loaded.
        dur: the duration of a row, ns.
        odd: the condition for loaded rows of which a value is not.
    """

    table: str
    owner: Sequence[Term]
    start: str
    where: Term = ALWAYS
    kept: Term = ALWAYS
    dur: Term = ZERO
    odd: Term = NEVER

    @property
    def columns(self) -> frozenset[str]:
        """The columns that these are made of."""
        return columns_of(
            (*self.owner, column(self.start), self.where, self.kept, self.dur, self.odd)
        )
