"""What a database and the files beside it say of the job: rank, device, versions, groups."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from traceql.readers.dialects.ascend.vocabulary import MOST_RANKS, Metadata
from traceql.readers.formats.ascend.job import Statement, job_statements
from traceql.readers.formats.ascend.side_files import SideFiles
from traceql.readers.formats.ascend_db.names import PROFILES
from traceql.readers.formats.kineto.kineto_json import repaired_json
from traceql.readers.sqlite_container import SqliteContainer

_METADATA, _NPU, _MAP = "META_DATA", "NPU_INFO", "RANK_DEVICE_MAP"
_OF_TORCH = "ascend_pytorch_profiler"


class Job:
    """What is known of the rank of a database.

    Args:
        damaged: sentences about files beside it that could not be used.
        largest_group: ranks of the largest communicator that operations ran in, if known.

    Attributes:
        metadata: by the keys of the dialect; what is unknown has no key.
    """

    def __init__(
        self,
        database: SqliteContainer,
        path: Path,
        damaged: Sequence[str],
        largest_group: int | None,
    ) -> None:
        self._database, self._path = database, path
        self._asked: defaultdict[str, int] = defaultdict(int)  # texts that are there, by table
        self._unknown: defaultdict[str, list[str]] = defaultdict(list)
        self._altered: defaultdict[str, list[str]] = defaultdict(list)
        self._version = self._text(_METADATA, "SCHEMA_VERSION", "SCHEMA_VERSION")
        stated = {
            name: self._document(name) for name in ("distributed_args", "parallel_group_info")
        }
        known = {name: value for name, value in stated.items() if value is not None}
        files = SideFiles(path, export="db", stated=known)
        self._ranks = dict(self._stated_ranks(files.metadata))
        source, rank = next(iter(self._ranks.items()), ("order of files", None))
        device, name = self._device()
        found = files.metadata | {
            Metadata.RANK: rank,
            Metadata.RANK_SOURCE: source,
            Metadata.DEVICE: device,
            Metadata.DEVICE_NAME: name,
            Metadata.LARGEST_GROUP: largest_group,
        }
        self.metadata = {str(key): value for key, value in found.items() if value is not None}
        self._damaged = [*files.damaged, *damaged]

    def statements(self) -> Iterator[Statement]:
        """What is contradictory, damaged, or of a version that was not seen before."""
        first = next(iter(self._ranks.values()), None)
        agreeing = sum(rank == first for rank in self._ranks.values())
        if agreeing < len(self._ranks):
            listed = ", ".join(f"{rank} ({source})" for source, rank in self._ranks.items())
            yield "statements of the rank", agreeing, len(self._ranks), False, listed
        yield from job_statements(self._path, self.metadata, self._damaged)
        for table, odd in self._unknown.items():
            note = "values that are not text, or damaged, and unknown; all that are read. They are"
            total, listed = self._asked[table], ", ".join(odd)
            yield f"values of {table}", len(odd), total, False, f"{note}: {listed}"
        for table, odd in self._altered.items():
            name = f"texts of {table} that are not UTF-8"
            yield name, len(odd), self._asked[table], None, ", ".join(odd)
        if self._version and not self._version.startswith("1."):
            yield "version of the tables", 0, 1, None, self._version[:20]

    def _stated_ranks(self, beside: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
        """The rank by the place that states it, the most reliable one first."""
        if len(ranks := self._distinct(_MAP, "rankId")) == 1 and _is_rank(ranks[0]):
            yield _MAP, ranks[0]
        source, rank = beside.get(Metadata.RANK_SOURCE), beside.get(Metadata.RANK)
        by_folder = source == "name of the folder"
        if rank is not None and not by_folder:
            yield str(source), rank
        named = PROFILES.search(self._path.name)
        of_torch = named and named["number"] and self._path.name.startswith(_OF_TORCH)
        if named and of_torch and _is_rank(number := int(named["number"][:20])):
            yield "file name", number
        if rank is not None and by_folder:
            yield str(source), rank

    def _device(self) -> tuple[int | None, str | None]:
        """The number and the name of the only NPU of the file."""
        found = {*self._distinct(_MAP, "deviceId"), *self._distinct(_NPU, "id")}
        numbers = [number for number in found if isinstance(number, int)]
        if len(numbers) != 1:
            return None, None
        return numbers[0], self._text(_NPU, numbers[0], f"name of NPU {numbers[0]}")

    def _distinct(self, table: str, column: str) -> list[Any]:
        """Two of the values of a column, or all of fewer."""
        if column not in self._database.columns(table):
            return []
        found = self._database.query(f"SELECT DISTINCT {column} FROM {table} LIMIT 2")
        return [value for (value,) in found]

    def _document(self, name: str) -> Any:
        """JSON in the table of metadata; None if there is none."""
        try:
            text = self._text(_METADATA, name, name) or "null"
            return json.loads(repaired_json(text.encode()))
        except (ValueError, RecursionError):
            self._unknown[_METADATA].append(f"{name} (damaged JSON)")
            return None

    def _text(self, table: str, key: object, called: str) -> str | None:
        """A text of a table by its key; None if there is none, or if it is of another type."""
        named, column = ("name", "value") if table == _METADATA else ("id", "name")
        if not self._database.columns(table) >= {named, column}:
            return None
        sql = f"SELECT {column}, CAST({column} AS BLOB) FROM {table} WHERE {named} = ?"
        value, content = next(iter(self._database.query(sql, (key,))), (None, None))
        if value is None:
            return None
        self._asked[table] += 1
        if not isinstance(value, str):
            self._unknown[table].append(called)
            return None
        if value.encode() != content:
            self._altered[table].append(called)
        return value


def _is_rank(value: object) -> bool:
    """-1, and the largest number of 32 bits, stand for none."""
    return type(value) is int and 0 <= value < MOST_RANKS
