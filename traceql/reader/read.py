"""One trace file in, its tables out, whatever its format."""

from pathlib import Path

from traceql.reader.formats import is_native
from traceql.reader.tables import Reader, TraceTables


def read_trace(path: Path, *, trace_processor: Path | None) -> TraceTables:
    """The tables of a trace file, whatever its format.

    Raises:
        TraceqlError: the file is no trace, or reading it would lose something.
    """
    return _reader(path)(path, trace_processor=trace_processor)


def _reader(path: Path) -> Reader:
    if is_native(path):
        from traceql.reader.native import read_native

        return read_native
    from traceql.reader.kineto import read_kineto

    return read_kineto
