"""Folded stacks: lines from which flamegraph.pl, inferno, speedscope and others draw flame graphs.

A line has the names of a stack from the outermost call inwards, separated by semicolons, then a
space and the self time of the stack as an integer, in ns.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from traceql.errors import QueryInvalid
from traceql.util.text import one_line

if TYPE_CHECKING:
    import pyarrow as pa

_STACK, _OWN = "stack", "own_ns"


def require_stacks(schema: "pa.Schema") -> None:
    """Refuses rows that have no stacks.

    Raises:
        QueryInvalid: a column is missing or has another type; the message says which.
    """
    import pyarrow as pa

    if not {_STACK, _OWN} <= set(schema.names):
        raise QueryInvalid(
            f"--format folded needs the columns {_STACK} and {_OWN}; query host.flame has them"
        )
    if not pa.types.is_string(schema.field(_STACK).type):
        raise QueryInvalid(f"--format folded needs text in column {_STACK}; cast it to VARCHAR")
    if not pa.types.is_integer(schema.field(_OWN).type):
        raise QueryInvalid(f"--format folded needs integers in column {_OWN}; cast it to BIGINT")


def folded_text(batches: "Iterable[pa.RecordBatch]") -> Iterator[str]:
    """The lines of the stacks that have self time, in pieces."""
    for batch in batches:
        rows = zip(batch.column(_STACK).to_pylist(), batch.column(_OWN).to_pylist(), strict=True)
        yield "".join(
            f"{one_line(stack or '(no stack)')} {own_ns}\n" for stack, own_ns in rows if own_ns
        )
