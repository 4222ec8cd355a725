"""An export with its ranks, and where the rows of each rank are."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from traceql.readers.formats.nsys.block import Owner
from traceql.readers.formats.nsys.blocks import RankRows, scanned
from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.gpu_metrics import GpuMetrics
from traceql.readers.formats.nsys.nvtx import Nvtx
from traceql.readers.formats.nsys.points import Points, points
from traceql.readers.formats.nsys.processes import RankPart, rank_parts
from traceql.readers.formats.nsys.sources import Source, schedule, sources


@dataclass(frozen=True)
class RankRecording:
    """What of an export belongs to one rank.

    Attributes:
        shares_process: whether another rank is of the same process.
        events: its rows with a duration, of each kind.
        points: its rows without one.
        samples: its samples of GPU metrics.
    """

    export: Export
    nvtx: Nvtx
    metrics: GpuMetrics
    part: RankPart
    shares_process: bool
    events: Sequence[tuple[Source, RankRows]]
    points: Sequence[tuple[Points, RankRows]]
    samples: RankRows | None

    @property
    def rows(self) -> Sequence[RankRows]:
        """All rows of the rank."""
        found = [rows for _, rows in (*self.events, *self.points)]
        return [*found, *([] if self.samples is None else [self.samples])]


class Recording:
    """An export with its ranks.

    Attributes:
        parts: its ranks.
    """

    def __init__(self, export: Export) -> None:
        self.export = export
        self.parts = rank_parts(export)
        schedule(export, self.threads)
        self.nvtx = Nvtx(export)
        self.metrics = GpuMetrics(export, self.parts)
        events, others = list(sources(export)), list(points(export))
        rows = [kind.rows() for kind in events] + [kind.rows() for kind in others]
        blocks = scanned(export, rows)
        self._events = list(zip(events, blocks[: len(events)], strict=True))
        self._points = list(zip(others, blocks[len(events) :], strict=True))

    @property
    def threads(self) -> Sequence[int]:
        """The threads of all ranks."""
        return [thread for part in self.parts for thread in part.threads]

    def rank(self, part: RankPart) -> RankRecording:
        """What belongs to one of the ranks."""
        return RankRecording(
            self.export,
            self.nvtx,
            self.metrics,
            part,
            sum(one.process == part.process for one in self.parts) > 1,
            [(kind, blocks.of_rank(_owners(kind, part))) for kind, blocks in self._events],
            [(kind, blocks.of_rank(_owners(kind, part))) for kind, blocks in self._points],
            self.metrics.rows(part),
        )


def _owners(kind: Source | Points, part: RankPart) -> Collection[Owner]:
    return part.gpus if kind.on_gpu else [(thread,) for thread in part.threads]
