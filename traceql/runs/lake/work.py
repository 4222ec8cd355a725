"""What there is to do for a run, as tasks of an executor."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import gethostname

from traceql.database.loading.ahead import read_ahead
from traceql.errors import LakeError
from traceql.runs.lake.add import Added, add_run
from traceql.runs.lake.executor.task import Room, Task
from traceql.runs.lake.layout import MARK
from traceql.runs.lake.places import store_at
from traceql.runs.lake.sizes import timeout_of


@dataclass(frozen=True)
class Work:
    """How runs are added.

    Attributes:
        lake: as all machines name it.
        timeout_s: how long a task may run; None to go by the size of what it reads.
        trace_processor: a native trace_processor_shell to load with.
        again: whether runs that the lake has are added anew.
    """

    lake: str
    timeout_s: float | None
    trace_processor: Path | None
    again: bool

    def reading(self, file: Path, room: Room, folder: Path) -> Task:
        """Reads a file of a run into a folder."""
        return self._task(
            partial(
                read_ahead,
                file,
                folder,
                trace_processor=self.trace_processor,
                memory_bytes=room.memory_bytes,
                processes=room.processors,
            ),
            file,
            room,
        )

    def adding(self, run: Path, room: Room, ahead: Path | None = None) -> Task:
        """Adds a run, of which files may have been read into a folder."""
        return self._task(
            partial(
                _add,
                run,
                self.lake,
                jobs=room.processors,
                memory=room.memory_bytes,
                trace_processor=self.trace_processor,
                ahead=ahead,
                again=self.again,
            ),
            run,
            room,
        )

    def _task(self, work: "partial[Added] | partial[None]", reads: Path, room: Room) -> Task:
        timeout_s = self.timeout_s or timeout_of(room.size_bytes)
        return Task(work, reads, room.memory_bytes, timeout_s)


def _add(run: Path, lake: str, **options: object) -> Added:
    if store_at(lake).size(MARK) is None:
        raise LakeError(f"{gethostname()} does not see the lake {lake}; all machines need it there")
    return add_run(run, lake, **options)  # type: ignore[arg-type]
