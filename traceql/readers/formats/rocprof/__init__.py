"""The reader of rocprofv3, AMD's profiler: its databases (rocpd), JSON and CSV.

Its Perfetto traces are read as all Perfetto traces are (traceql.readers.formats.perfetto).
"""

from functools import partial

from traceql.readers import relation_reader
from traceql.readers.contract import Reader
from traceql.readers.formats.rocprof.forms import KINDS, files, form_of, is_superseded

_MODULE = "traceql.readers.formats.rocprof.read"
_ENDINGS = (".db", *(f"{kind}.csv" for kind in KINDS))
_STREAMED_BYTES = 64 << 20

READER = Reader(
    name="rocprof",
    format="rocprofv3",
    suffixes=tuple(f"{ending}{packed}" for packed in ("", ".gz") for ending in _ENDINGS),
    dialect="rocprof",
    recognises=lambda path: form_of(path) is not None,
    read=partial(relation_reader.read, _MODULE),
    stream=partial(relation_reader.read, _MODULE),
    streamed_bytes=_STREAMED_BYTES,
    feed=partial(relation_reader.feed, _MODULE),
    opens_in_perfetto=False,
    is_superseded=is_superseded,
    files=files,
    whole=lambda path: files(path)[0],
    runs_engine=False,
)
