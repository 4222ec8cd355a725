"""What a database and the files beside it tell of the job: rank, device, versions, groups."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from traceql.readers.dialects.ascend.vocabulary import MOST_RANKS, Metadata
from traceql.readers.formats.ascend.common_remarks import files_beside
from traceql.readers.formats.ascend.job_size import (
    is_number_of_ranks,
    job_size_remarks,
    largest_group,
)
from traceql.readers.formats.ascend.side_files import SideFiles
from traceql.readers.formats.ascend_db.about import NPU, About
from traceql.readers.formats.ascend_db.analysis import Analysis
from traceql.readers.formats.ascend_db.names import PROFILES
from traceql.readers.formats.ascend_db.profile import Profile
from traceql.readers.remarks import Remark

_MAP = "RANK_DEVICE_MAP"
_OF_TORCH = "ascend_pytorch_profiler"
_STATED = ("distributed_args", "parallel_group_info")
_OPERATION, _PART = ("COMMUNICATION_OP", "rankSize"), ("COMMUNICATION_TASK_INFO", "dstRank")


class Job:
    """What is known of the rank of a database.

    Args:
        analysis: the sums that the profiler left beside the file.

    Attributes:
        metadata: by the keys of the dialect; what is unknown has no key.
    """

    def __init__(self, profile: Profile, path: Path, analysis: Analysis) -> None:
        self._profile, self._path, self._about = profile, path, About(profile)
        self._version = self._about.text("SCHEMA_VERSION")
        found = {name: self._about.document(name) for name in _STATED}
        stated = {name: value for name, value in found.items() if value is not None}
        self._files = SideFiles(path, export="db", stated=stated)
        self._damaged = [analysis.damaged] if analysis.damaged else []
        beside = self._files.metadata
        self._ranks = dict(self._stated_ranks(path, beside))
        rank, source = next(
            ((rank, source) for source, rank in self._ranks.items()), (None, "order of files")
        )
        device, name = self._device()
        known = {
            **beside,
            Metadata.RANK: rank,
            Metadata.RANK_SOURCE: source,
            Metadata.DEVICE: device,
            Metadata.DEVICE_NAME: name,
            Metadata.LARGEST_GROUP: largest_group(self._largest(_OPERATION), self._largest(_PART)),
        }
        self.metadata = {str(key): value for key, value in known.items() if value is not None}

    def remarks(self) -> Iterator[Remark]:
        """What is contradictory, damaged, or of a version that was not seen before."""
        if len(set(self._ranks.values())) > 1:
            listed = ", ".join(f"{rank} ({source})" for source, rank in self._ranks.items())
            first = next(iter(self._ranks.values()))
            agreeing = sum(rank == first for rank in self._ranks.values())
            yield Remark(
                "statements of the rank",
                agreeing,
                len(self._ranks),
                False,
                f"places that agree with the first one, which is used; all that state it: {listed}",
            )
        yield from job_size_remarks(self.metadata)
        yield from files_beside(self._path, self._files.damaged + self._damaged)
        yield from self._about.remarks()
        if (version := self._version) and not version.startswith("1."):
            yield Remark(
                "version of the tables",
                0,
                1,
                None,
                f"the database has version {version[:20]} of the tables; those known have 1.x",
            )

    def _stated_ranks(self, path: Path, beside: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
        """The rank by the place that states it, the most reliable one first."""
        if self._profile.has(_MAP, "rankId"):
            rows = self._profile.rows(f"SELECT DISTINCT rankId FROM {_MAP} LIMIT 2")
            if len(rows) == 1 and is_number_of_ranks(rows[0][0]):
                yield _MAP, rows[0][0]
        source, rank = beside.get(Metadata.RANK_SOURCE), beside.get(Metadata.RANK)
        by_folder = source == "name of the folder"
        if rank is not None and not by_folder:
            yield str(source), rank
        named = PROFILES.search(path.name)
        is_rank = named and named["number"] and path.name.startswith(_OF_TORCH)
        if named and is_rank and is_number_of_ranks(number := int(named["number"][:20])):
            yield "file name", number
        if rank is not None and by_folder:
            yield str(source), rank

    def _largest(self, place: tuple[str, str]) -> list[object]:
        """The largest rank, or number of ranks, in a column."""
        table, column = place
        if not self._profile.has(table, column):
            return []
        number = f"SELECT MAX({column}) FROM {table} WHERE typeof({column}) = 'integer'"
        return [self._profile.value(f"{number} AND {column} < {MOST_RANKS}")]

    def _device(self) -> tuple[int | None, str | None]:
        """The number and the name of the only NPU of the file."""
        devices = [
            row
            for table, column in ((_MAP, "deviceId"), (NPU, "id"))
            if self._profile.has(table, column)
            for row in self._profile.rows(f"SELECT DISTINCT {column} FROM {table} LIMIT 2")
        ]
        numbers = {number for (number,) in devices if isinstance(number, int)}
        if len(numbers) != 1:
            return None, None
        number = numbers.pop()
        return number, self._about.device_name(number)
