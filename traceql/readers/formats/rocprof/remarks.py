"""What the ledger has to say about a recording of rocprofv3."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.dialects.rocprof.vocabulary import GRAPH_LAUNCH, Category
from traceql.readers.formats.rocprof.graph_losses import advice, graph_remarks
from traceql.readers.formats.rocprof.launches import is_call
from traceql.readers.formats.rocprof.rank_events import (
    LARGEST_SIZE,
    RankEvents,
    are_possible,
    sizes,
)
from traceql.readers.formats.rocprof.recording import Process
from traceql.readers.remarks import Remark, left_out

Int64s = npt.NDArray[np.int64]
_LOST = ". They were filtered out, or the profiler lost them; no HIP graph was launched"


def remarks(found: RankEvents, process: Process, *, is_first: bool) -> Iterator[Remark]:
    """Statements about one rank; those about its whole process are with its first rank."""
    calls = is_call(found.events)
    on_gpu = found.events["on_gpu"].to_numpy() == 1
    yield from _launches(found, calls, on_gpu)
    yield from graph_remarks(*_graph_launches(found, calls), found.correlation[on_gpu])
    kernels = found.events.filter(pc.equal(found.events["cat"], Category.KERNEL.value))
    yield from _unknown_agents(kernels, process)
    yield from _odd_sizes(kernels)
    yield from _odd_bytes(found.events)
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


def _unknown_agents(kernels: pa.Table, process: Process) -> Iterator[Remark]:
    """Kernels of agents that are no GPU by the list of agents, if the recording has one."""
    device = kernels["device"]
    unknown = device.null_count
    if process.agents:
        listed = pa.array({agent.device for agent in process.agents.values()}, pa.int64())
        unknown += pc.sum(pc.invert(pc.is_in(device.drop_null(), listed))).as_py() or 0
    if unknown:
        yield Remark(
            "kernels of unknown agents",
            unknown,
            kernels.num_rows,
            False,
            "kernels of an agent that the recording does not describe as a GPU, so that the name "
            "of their GPU is unknown, and maybe which one it is; all kernels of the rank",
        )


def _odd_sizes(kernels: pa.Table) -> Iterator[Remark]:
    grid, block = sizes(kernels)
    told = [kernels[f"{what}_{axis}"].is_valid() for what in ("grid", "block") for axis in "xyz"]
    is_told = np.logical_or.reduce([one.to_numpy() for one in told])
    are_sizes = pc.and_(are_possible(grid), are_possible(block)).to_numpy(zero_copy_only=False)
    if odd := int((is_told & ~are_sizes).sum()):
        yield Remark(
            "kernels with an impossible grid or block",
            odd,
            kernels.num_rows,
            False,
            f"kernels of which a size is not between 1 and {LARGEST_SIZE:,}, so that grid or block "
            "is NULL; all kernels of the rank: record again",
        )


def _odd_bytes(events: pa.Table) -> Iterator[Remark]:
    size = events["bytes"].drop_null()
    if odd := pc.sum(pc.less(size, 0)).as_py():
        yield Remark(
            "copies of fewer than 0 bytes",
            odd,
            len(size),
            False,
            "copies whose size cannot be, so that it is NULL; all copies of the rank with a size",
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
