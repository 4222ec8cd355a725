"""What all forms of rocprofv3's outputs are read into: the processes of a recording.

All times are ns since the machine was started.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from traceql.errors import TraceCorrupt
from traceql.readers.formats.rocprof.forms import Form
from traceql.readers.unpacked import ANEW

FARTHEST_NS = 2**62  # 146 years

# Events with a duration. `place` tells tracks of one thread apart: see PLACES.
EVENT = pa.schema(
    [
        ("cat", pa.large_string()),
        ("name", pa.large_string()),
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("dur", pa.int64(), nullable=False),
        pa.field("on_gpu", pa.int64(), nullable=False),  # 0 or 1
        ("device", pa.int64()),  # number of the GPU on its machine; NULL on the host, or if unknown
        ("thread", pa.int64()),  # on the GPU: of the call that launched it; NULL if unknown
        ("stream", pa.int64()),  # of HIP
        ("queue", pa.int64()),  # of the hardware
        ("place", pa.int64()),
        ("correlation", pa.int64()),
        ("dispatch", pa.int64()),  # number of the kernel in its process
        ("graph", pa.large_string()),  # the graph that a call launches; NULL if it tells none
        ("args", pa.large_string()),
        ("bytes", pa.int64()),
        *((f"{what}_{axis}", pa.int64()) for what in ("grid", "block") for axis in "xyz"),
    ]
)
# Events that need not nest with those of their thread have a track of their own.
PLACES = ("", "ranges", "memory")
ITSELF, RANGES, MEMORY = range(len(PLACES))

MARK = pa.schema(
    [
        ("cat", pa.large_string()),
        ("name", pa.large_string()),
        pa.field("ts", pa.int64(), nullable=False),
        ("thread", pa.int64()),
    ]
)
SAMPLE = pa.schema(
    [
        ("name", pa.large_string()),
        pa.field("ts", pa.int64(), nullable=False),
        ("value", pa.float64()),
        ("device", pa.int64()),
    ]
)


# Why counters are not loaded, as the ledger calls them.
COUNTERS_WITHOUT_TIMES = "of counters without times"


@dataclass(frozen=True)
class Agent:
    """A processor that the profiler lists.

    Attributes:
        device: its number among the GPUs of its machine; None for a CPU.
        name: of the product, such as AMD Instinct MI300X.
        architecture: such as gfx942.
    """

    device: int | None
    name: str | None = None
    architecture: str | None = None


@dataclass(frozen=True)
class Counted:
    """Events of one category and place, counted by another way than the one that reads them."""

    cat: str
    on_gpu: bool
    number: int | None  # of the GPU, or of the thread
    events: int
    dur: int  # ns


@dataclass
class Process:
    """A process of a recording.

    Attributes:
        counted: the events of `events`, counted independently.
        marks_counted: the number of events without a duration, counted independently.
        samples_counted: the number of samples of counters, counted independently.
        without_times: records that have no times, which are not loaded.
        backward: records that end before they begin, which are not loaded.
        unread: records that cannot be read, by what they are.
        not_loaded: records that no table holds, by what they are.
    """

    pid: int | None
    name: str | None
    agents: Mapping[int, Agent]
    events: pa.Table
    marks: pa.Table
    samples: pa.Table
    counted: Sequence[Counted]
    marks_counted: int = 0
    samples_counted: int = 0
    without_times: int = 0
    backward: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)
    not_loaded: Mapping[str, int] = field(default_factory=dict)

    def agent_of(self, device: int | None) -> Agent:
        """The GPU of a number; one without a name if the recording does not tell."""
        found = (agent for agent in self.agents.values() if agent.device == device)
        return next(found, Agent(device))

    @property
    def used_a_gpu(self) -> bool:
        worked = bool(pc.any(pc.equal(self.events["on_gpu"], 1)).as_py())
        return worked or self.samples.num_rows > 0

    @property
    def is_empty(self) -> bool:
        return not (self.events.num_rows or self.marks.num_rows or self.samples.num_rows)


@dataclass(frozen=True)
class Recording:
    """All processes of a file, or of the CSV files that belong together."""

    form: Form
    processes: Sequence[Process]
    schema: str | None = None


def copied_by(target: int | None, source: int | None) -> int | None:
    """The GPU to which a copy belongs: the target, or else the source; None between hosts."""
    return source if target is None else target


def is_backward(start: int, end: int) -> bool:
    """Whether an event ends before it begins, at a time that can be."""
    return 0 < start <= FARTHEST_NS and end < start


def require_time(ts: int) -> None:
    """Raises TraceCorrupt for a time that cannot be."""
    if ts < 0:
        raise TraceCorrupt(f"an event begins at {ts:,} ns, below zero, which is no time; {ANEW}")
    if ts > FARTHEST_NS:
        raise TraceCorrupt(f"an event begins at {ts:,} ns, which is no time; {ANEW}")
