"""Reads the events of one kind that belong to a rank and begin in a window."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from traceql.readers.formats.nsys.blocks import RankRows
from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.sources import EVENT, Source
from traceql.readers.formats.nsys.term import Term, columns_of
from traceql.readers.formats.nsys.windows import Window
from traceql.readers.json_objects import json_objects
from traceql.readers.sqlite_pages import Batch

_ARGUMENT = "argument "  # begins the names of columns that become arguments


def events(export: Export, source: Source, rows: RankRows, window: Window) -> pa.Table:
    """The events of one kind that belong to a rank and begin in a window, as the table EVENT."""
    args = [name for name in source.args if export.has(source.table, name)]
    reading = _Reading(export, source, rows, window, source.event(export), args)
    return pa.concat_tables([EVENT.empty_table(), *reading.parts()])


@dataclass(frozen=True)
class _Reading:
    """Reads what belongs to a rank in a window.

    Attributes:
        terms: the columns of EVENT that are not NULL, but for the arguments.
        args: the columns that become arguments.
    """

    export: Export
    source: Source
    rows: RankRows
    window: Window
    terms: Mapping[str, Term]
    args: Sequence[str]

    def parts(self) -> Iterator[pa.Table]:
        ranges = self.rows.ranges(self.window)
        if not ranges:
            return
        columns = self.rows.rows.columns | columns_of(self.terms.values()) | {*self.args}
        for batch in self.export.integers.batches(self.source.relation, columns, ranges):
            found = None if batch.rows is None else self._computed(batch.rows)
            yield self._selected(batch) if found is None else found

    def _computed(self, rows: pa.Table) -> pa.Table | None:
        """Those of some rows, whose columns are integers; None if SQLite must read them."""
        try:
            found = self.rows.chosen(rows, self.window)
            known = {name: term.of(found) for name, term in self.terms.items()}
        except pa.ArrowInvalid:
            return None
        if any(known[of.name].null_count for of in EVENT if not of.nullable):
            return None
        return _event({name: found[name] for name in self.args}, known, found.num_rows)

    def _selected(self, batch: Batch) -> pa.Table:
        """The same by SQLite, which also tells what is wrong with a value."""
        condition = f"{self.rows.condition(self.window)} AND {batch.condition}"
        fields = [of for of in EVENT if of.name in self.terms]
        selected = [term.sql for term in self.terms.values()]
        args = list(self.args)
        if not self.export.are_integers(self.source.table, tuple(args)):
            fields.append(EVENT.field("args"))
            selected.append(_json(args))
            args = []
        fields += [pa.field(f"{_ARGUMENT}{name}", pa.int64()) for name in args]
        selected += [f'"{name}"' for name in args]
        found = self.export.table(
            f"SELECT {', '.join(selected)} FROM {self.source.relation} WHERE {condition}",
            pa.schema(fields),
        )
        known = {name: found[name] for name in found.column_names if name in EVENT.names}
        return _event({name: found[f"{_ARGUMENT}{name}"] for name in args}, known, found.num_rows)


def _event(
    args: Mapping[str, pa.ChunkedArray], known: Mapping[str, pa.ChunkedArray], rows: int
) -> pa.Table:
    """The table EVENT of its columns; `args` are integers that become arguments."""
    if args:
        known = {**known, "args": json_objects(args, rows)}
    columns = [
        known[of.name].cast(of.type) if of.name in known else pa.nulls(rows, of.type)
        for of in EVENT
    ]
    return pa.table(columns, schema=EVENT)


def _json(columns: Sequence[str]) -> str:
    """SQL of the columns as one JSON object, without those that are NULL; NULL if none is left."""
    pairs = ", ".join(f"'{name}', \"{name}\"" for name in columns)
    return f"NULLIF(json_patch('{{}}', json_object({pairs})), '{{}}')"
