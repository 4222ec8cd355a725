"""What the devices of a run, and what is said of them, are called: on Ascend, a GPU is an NPU.

Texts of traceql are written for GPUs. The dialect of a recording says what to write in their place.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from traceql.readers.dialects.registry import replaced, words
from traceql.sql.query import Head, Query


@dataclass(frozen=True)
class Terminology:
    """Writes texts of traceql in the terms of a run.

    Attributes:
        words: what to write for which words, the longer ones first.
    """

    words: Mapping[str, str]

    def __call__(self, text: str) -> str:
        return replaced(text, self.words)

    def queries(self, queries: Mapping[str, Query]) -> dict[str, Query]:
        """Queries, by name, whose heads are in these words."""
        if not self.words:
            return dict(queries)
        return {name: _Translated(query.path, self) for name, query in queries.items()}


def terminology(dialects: Collection[str]) -> Terminology:
    """That of recordings of one dialect; of others, that of traceql."""
    return Terminology(words(*dialects) if len(dialects) == 1 else {})


@dataclass(frozen=True)
class _Translated(Query):
    terminology: Terminology

    @cached_property
    def head(self) -> Head:
        head, translated = super().head, self.terminology
        columns = (replace(column, text=translated(column.text)) for column in head.columns)
        return replace(
            head,
            summary=translated(head.summary),
            text=translated(head.text),
            columns=tuple(columns),
            chart=head.chart and replace(head.chart, title=translated(head.chart.title)),
            empty=translated(head.empty),
        )
