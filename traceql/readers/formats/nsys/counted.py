"""How many rows of a table have which values."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.term import Term, columns_of
from traceql.readers.sqlite_pages import Batch


def counted(export: Export, table: str, *terms: Term) -> Counter[tuple[Any, ...]]:
    """The number of rows with each combination of values; it is counted once."""
    wanted = table, *(term.sql for term in terms)
    if wanted not in export.counted:
        found: Counter[tuple[Any, ...]] = Counter()
        for batch in export.integers.batches(table, columns_of(terms)):
            for *values, count in _rows(export, table, terms, batch):
                found[tuple(values)] += count
        export.counted[wanted] = found
    return export.counted[wanted]


def _rows(
    export: Export, table: str, terms: Sequence[Term], batch: Batch
) -> Iterable[tuple[Any, ...]]:
    """Values of the terms, and the number of their rows."""
    if batch.rows is None:
        listed = ", ".join(term.sql for term in terms)
        places = ", ".join(map(str, range(1, len(terms) + 1)))
        return export.rows(
            f"SELECT {listed}, COUNT(*) FROM {table} WHERE {batch.condition} GROUP BY {places}"
        )
    keys = [f"term_{number}" for number in range(len(terms))]
    values = pa.table([term.of(batch.rows) for term in terms], keys)
    groups = values.group_by(keys, use_threads=False).aggregate([([], "count_all")])
    return zip(*(groups[name].to_pylist() for name in (*keys, "count_all")), strict=True)
