"""Reads an output of rocprofv3 into the relations of the reader contract."""

from pathlib import Path

from traceql.errors import NotATrace, TraceCorrupt
from traceql.readers.dialects.event_kinds import EventKind
from traceql.readers.dialects.rocprof.vocabulary import CATEGORIES, COPIES, PROCESS_RANGES
from traceql.readers.formats.rocprof.csv_files import fill_csv
from traceql.readers.formats.rocprof.database import fill_rocpd
from traceql.readers.formats.rocprof.forms import Form, form_of
from traceql.readers.formats.rocprof.tool_json import fill_json
from traceql.readers.scratch import Scratch
from traceql.readers.unpacked import ANEW

_FOLDER = Path(__file__).parent
_FILL = {Form.ROCPD: fill_rocpd, Form.JSON: fill_json, Form.CSV: fill_csv}
_EMPTY = (
    "holds no events; was the program profiled while a GPU worked? "
    "Record with rocprofv3 --runtime-trace"
)
_TIMELESS_COUNTERS = (
    "holds counters whose kernels have no times, as ROCm 6.2 writes them, and nothing else; record "
    "them with a later version, or record times with rocprofv3 --runtime-trace"
)
_NO_TIMES = "no record in it has a time that can be; record again with rocprofv3 --runtime-trace"
_WITHOUT_GPU = (
    "holds nothing that a GPU did, so it is not a rank; if its process worked on a GPU, record "
    "with rocprofv3 --runtime-trace"
)


def prepare(path: Path, scratch: Scratch) -> None:
    """Leaves the relations of a recording. Each rank is a process and one of its GPUs.

    Raises:
        TraceCorrupt: the file is damaged, or has another layout.
        NotATrace: it holds no events, or those of a process without a GPU, such as an API server.
    """
    form = form_of(path) or Form.CSV
    variables = {
        "form": form.value,
        "calls": [cat for cat, kind in CATEGORIES.items() if kind == EventKind.LAUNCH],
        "copies": COPIES,
        "ranges": list(PROCESS_RANGES),
    }
    for name, value in variables.items():
        type_ = "::MAP(VARCHAR, VARCHAR)" if name == "copies" else ""
        scratch.con.execute(f"SET VARIABLE {name} = $1{type_}", [value])
    scratch.run(_FOLDER / "inputs.sql")
    try:
        _FILL[form](path, scratch)
        scratch.run(_FOLDER / "rocprof.sql")
        _require_events(scratch)
    except TraceCorrupt as error:  # the file that stands for the others is named anyway
        raise type(error)(str(error).removeprefix(path.name).lstrip(":, ")) from None
    scratch.run(_FOLDER / "graph_losses.sql")
    scratch.run(_FOLDER / "load_checks.sql")


def _require_events(scratch: Scratch) -> None:
    """Raises an error if nothing can be loaded."""
    for (problem,) in scratch.rows("SELECT problem FROM counted WHERE problem IS NOT NULL LIMIT 1"):
        raise TraceCorrupt(f"{problem}; {ANEW}")
    if scratch.rows("SELECT 1 FROM rank LIMIT 1"):
        return
    if scratch.rows("SELECT 1 FROM event UNION ALL SELECT 1 FROM mark LIMIT 1"):
        raise NotATrace(_WITHOUT_GPU)
    if scratch.rows("SELECT 1 FROM not_loaded WHERE what = 'of counters without times'"):
        raise NotATrace(_TIMELESS_COUNTERS)
    is_timeless = "SELECT 1 FROM counted WHERE without_times > 0 OR backward > 0 LIMIT 1"
    raise NotATrace(_NO_TIMES if scratch.rows(is_timeless) else _EMPTY)
