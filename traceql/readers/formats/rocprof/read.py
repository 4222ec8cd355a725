"""Reads an output of rocprofv3 into the relations of the reader contract."""

from pathlib import Path

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers.dialects.event_kinds import EventKind
from traceql.readers.dialects.rocprof.vocabulary import CATEGORIES, COPIES, PROCESS_RANGES
from traceql.readers.formats.rocprof.csv_files import fill_csv
from traceql.readers.formats.rocprof.database import fill_rocpd
from traceql.readers.formats.rocprof.forms import form_of
from traceql.readers.formats.rocprof.tool_json import fill_json
from traceql.readers.scratch import Scratch
from traceql.readers.unpacked import REMAKE

_FOLDER = Path(__file__).parent
_FILL = {"rocpd": fill_rocpd, "json": fill_json, "csv": fill_csv}
# Why nothing can be loaded: the first of these that has rows.
_NOTHING = {
    "event": "holds nothing that a GPU did, so it is not a rank; if its process worked on a GPU, "
    "record with rocprofv3 --runtime-trace",
    "not_loaded WHERE what = 'of counters without times'": "holds counters whose kernels have no "
    "times, as ROCm 6.2 writes them, and nothing else; record them with a later version, or record "
    "times with rocprofv3 --runtime-trace",
    "counted WHERE without_times > 0 OR backward > 0": "no record in it has a time that can be; "
    "record again with rocprofv3 --runtime-trace",
    "(SELECT 1)": "holds no events; was the program profiled while a GPU worked? Record with "
    "rocprofv3 --runtime-trace",
}


def prepare(path: Path, scratch: Scratch) -> None:
    """Leaves the relations of a recording. Each rank is a process and one of its GPUs.

    Raises:
        TraceCorrupt: the file is damaged, or has another layout.
        NotATrace: it holds no events, or those of a process without a GPU, such as an API server.
    """
    form = form_of(path) or "csv"
    calls = [cat for cat, kind in CATEGORIES.items() if kind == EventKind.LAUNCH]
    for name, value in {"form": form, "calls": calls, "ranges": list(PROCESS_RANGES)}.items():
        scratch.con.execute(f"SET VARIABLE {name} = $1", [value])
    scratch.con.execute("SET VARIABLE copies = $1::MAP(VARCHAR, VARCHAR)", [COPIES])
    scratch.run(_FOLDER / "inputs.sql")
    try:
        _FILL[form](path, scratch)
        scratch.run(_FOLDER / "rocprof.sql")
        for (problem,) in scratch.rows("SELECT problem FROM counted WHERE problem IS NOT NULL"):
            raise TraceCorrupt(f"{problem}; {REMAKE}")
        if not scratch.rows("FROM rank LIMIT 1"):
            sources = (source for source in _NOTHING if scratch.rows(f"FROM {source} LIMIT 1"))
            raise NotATrace(_NOTHING[next(sources)])
    except TraceCorrupt as error:  # the file that stands for the others is named anyway
        raise type(error)(str(error).removeprefix(path.name).lstrip(":, ")) from None
    scratch.run(_FOLDER / "graph_losses.sql")
    scratch.run(_FOLDER / "load_checks.sql")
