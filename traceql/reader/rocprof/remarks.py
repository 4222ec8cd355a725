"""What the ledger has to say about a recording of rocprofv3."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.dialect.rocprof.vocabulary import GRAPH_LAUNCH
from traceql.reader.remarks import Remark, left_out
from traceql.reader.rocprof.graph_losses import advice, graph_remarks
from traceql.reader.rocprof.launches import is_call
from traceql.reader.rocprof.rank_events import RankEvents
from traceql.reader.rocprof.recording import Process

Int64s = npt.NDArray[np.int64]
_LOST = ". They were filtered out, or the profiler lost them; no HIP graph was launched"


def remarks(found: RankEvents, process: Process, *, is_first: bool) -> Iterator[Remark]:
    """Statements about one rank; those about its whole process are with its first rank."""
    calls = is_call(found.events)
    on_gpu = found.events["on_gpu"].to_numpy() == 1
    yield from _launches(found, calls, on_gpu)
    yield from graph_remarks(*_graph_launches(found, calls), found.correlation[on_gpu])
    if is_first:
        yield from _dispatches(process)
        yield from _of_process(process)


def _launches(
    found: RankEvents, calls: npt.NDArray[np.bool_], on_gpu: npt.NDArray[np.bool_]
) -> Iterator[Remark]:
    """Kernels that no call launched."""
    kernels = on_gpu & found.events["dispatch"].is_valid().to_numpy()
    if not kernels.any():
        return
    if not calls.any():
        note = (
            "calls of HIP in the file; without them nothing tells what launched a kernel, why a "
            "GPU was idle, or which kernels are of a graph: record with rocprofv3 --runtime-trace"
        )
        yield Remark("calls of HIP", 0, int(kernels.sum()), None, f"{note}; kernels")
        return
    joined = np.isin(found.correlation[kernels], found.correlation[calls])
    if not joined.all():
        yield Remark(
            "kernels without a call",
            int((~joined).sum()),
            int(kernels.sum()),
            None,
            "kernels whose correlation is that of no call of HIP in the file; all kernels",
        )


def _graph_launches(
    found: RankEvents, calls: npt.NDArray[np.bool_]
) -> tuple[Int64s, list[str | None]]:
    """The correlation of each call that launches a HIP graph, and the graph if it tells it."""
    is_graph = pc.fill_null(pc.match_substring(found.events["name"], GRAPH_LAUNCH), False)
    launches = np.flatnonzero(calls & is_graph.to_numpy().astype(np.bool_))
    return found.correlation[launches], found.events["graph"].take(pa.array(launches)).to_pylist()


def _dispatches(process: Process) -> Iterator[Remark]:
    """Kernels that are missing from the numbers that the profiler gives them."""
    numbers = process.events["dispatch"].drop_null().to_numpy()
    if not len(numbers):
        return
    distinct = np.unique(numbers)
    span = int(distinct[-1] - distinct[0]) + 1
    missing = span - len(distinct)
    yield Remark(
        "dispatches missing",
        missing,
        span,
        missing == 0,
        "numbers of kernels that the file skips, of kernels that ran but are not in it; numbers "
        f"from its first kernel to its last{_advice(process, missing)}",
    )


def _advice(process: Process, missing: int) -> str:
    """What to do about missing kernels: they may be those of graphs, unless the calls had none."""
    calls = process.events["name"].filter(pa.array(is_call(process.events)))
    is_graph = pc.any(pc.match_substring(calls, GRAPH_LAUNCH)).as_py()
    return advice(missing) if is_graph or not len(calls) else _LOST if missing else ""


def _of_process(process: Process) -> Iterator[Remark]:
    for name, rows, odd in (
        ("records without times", process.without_times, "records with zeros for times"),
        ("records that end before they begin", process.backward, "records whose times cannot be"),
    ):
        yield from left_out(name, rows, rows + process.events.num_rows, odd)
    for what, number in process.unread.items():
        yield Remark(
            "records that cannot be read", number, number, False, f"in {what}, which are left out"
        )
    for what, number in process.not_loaded.items():
        yield Remark(f"records {what}", 0, number, None, "records loaded; records in the file")
