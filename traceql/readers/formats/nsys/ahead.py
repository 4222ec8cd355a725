"""Reads the windows of a rank in processes of their own, before they are used."""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path

import pyarrow as pa

from traceql.readers.formats.nsys.blocks import RankRows
from traceql.readers.formats.nsys.export import Export, opened
from traceql.readers.formats.nsys.nvtx import Nvtx
from traceql.readers.formats.nsys.recording import RankRecording, Recording
from traceql.readers.formats.nsys.sources import Source, schedule
from traceql.readers.formats.nsys.window_rows import window_rows
from traceql.readers.formats.nsys.windows import Window
from traceql.readers.sqlite_pages import Trees
from traceql.util.child_process import end_with_parent


@dataclass
class Ahead:
    """Processes that have the file open and read windows.

    Attributes:
        pool: the processes.
        folder: for what they have read, which is removed when it is used.
        windows: how many windows are read before they are used.
    """

    pool: ProcessPoolExecutor
    folder: Path
    windows: int
    _numbers: "count[int]" = field(default_factory=count)

    def rows(self, rank: RankRecording, windows: Sequence[Window]) -> Iterator[pa.Table]:
        """The rows of each window, in their order.

        Raises:
            TraceCorrupt: a row cannot be read.
            BrokenProcessPool: a process was ended from outside.
        """
        running: deque[Future[Path]] = deque()
        left = iter(windows)
        for window in islice(left, self.windows):
            running.append(self._begun(rank, window))
        while running:
            file = running.popleft().result()
            for window in islice(left, 1):
                running.append(self._begun(rank, window))
            yield _taken(file)

    def _begun(self, rank: RankRecording, window: Window) -> Future[Path]:
        file = self.folder / f"window.{next(self._numbers)}.arrow"
        return self.pool.submit(_written, rank.events, window, file)


@contextmanager
def reading_ahead(
    path: Path, recording: Recording, folder: Path, processes: int
) -> Iterator[Ahead]:
    """Starts the processes, which end after the block.

    Args:
        path: the SQLite file.
        recording: what is known of it.
    """
    known = path, recording.threads, recording.export.integers.trees
    with ProcessPoolExecutor(
        processes, get_context("spawn"), initializer=_open, initargs=known
    ) as pool:
        try:
            yield Ahead(pool, folder, processes)
        finally:
            pool.shutdown(cancel_futures=True)


_file = ExitStack()  # of the process, which has it open until its end
_export: Export


def _open(path: Path, threads: Sequence[int], trees: Trees) -> None:
    """Begins a process."""
    global _export
    end_with_parent()
    _export = _file.enter_context(opened(path))
    _export.integers.know(trees)
    schedule(_export, threads)


def _written(sources: Sequence[tuple[Source, RankRows]], window: Window, file: Path) -> Path:
    """Reads a window into a file."""
    rows = window_rows(_export, Nvtx(_export), sources, window)
    with pa.ipc.new_file(file, rows.schema) as sink:
        sink.write_table(rows)
    return file


def _taken(file: Path) -> pa.Table:
    """The rows of a file, which is mapped, and removed."""
    with pa.memory_map(str(file)) as source:
        rows = pa.ipc.open_file(source).read_all()
    file.unlink()
    return rows.combine_chunks()
