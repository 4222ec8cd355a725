"""The rank of a database, its device, versions and groups, by it and by the files beside it."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from traceql.readers.dialects.ascend.vocabulary import MOST_RANKS, Metadata
from traceql.readers.formats.ascend.job_checks import Statement, job_statements
from traceql.readers.formats.ascend.side_files import SideFiles
from traceql.readers.formats.ascend_db.names import PROFILES
from traceql.readers.formats.kineto.kineto_json import repaired_json
from traceql.readers.sqlite_container import SqliteContainer

_METADATA, _NPU, _MAP = "META_DATA", "NPU_INFO", "RANK_DEVICE_MAP"
_LAYOUT, _GROUPS = "distributed_args", "parallel_group_info"


class Job:
    """What is known of the rank of a database.

    Args:
        damaged: sentences about files beside it that could not be used.
        largest: ranks of the largest communicator that operations ran in, if known.

    Attributes:
        metadata: by the keys of the dialect; what is unknown has no key.
    """

    def __init__(
        self, database: SqliteContainer, path: Path, damaged: Sequence[str], largest: int | None
    ) -> None:
        self._database, self._path = database, path
        self._texts: defaultdict[str, int] = defaultdict(int)  # that are there, by table
        self._unknown: defaultdict[str, list[str]] = defaultdict(list)
        self._altered: defaultdict[str, list[str]] = defaultdict(list)
        self._version = self._text(_METADATA, "SCHEMA_VERSION", "SCHEMA_VERSION")
        documents = ((name, self._document(name)) for name in (_LAYOUT, _GROUPS))
        stated = {name: found for name, found in documents if found is not None}
        files = SideFiles(path, export="db", stated=stated)
        self._ranks = dict(self._stated_ranks(files.metadata))
        source, rank = next(iter(self._ranks.items()), ("order of files", None))
        device, name = self._device()
        found = files.metadata | {
            Metadata.RANK: rank,
            Metadata.RANK_SOURCE: source,
            Metadata.DEVICE: device,
            Metadata.DEVICE_NAME: name,
            Metadata.LARGEST_GROUP: largest,
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
        note = "values that are not text, or damaged, and unknown; all that are read. They are"
        for table, odd in self._unknown.items():
            extra = f"{note}: {', '.join(odd)}"
            yield f"values of {table}", len(odd), self._texts[table], False, extra
        for table, odd in self._altered.items():
            check = f"texts of {table} that are not UTF-8"
            yield check, len(odd), self._texts[table], None, ", ".join(odd)
        if self._version and not self._version.startswith("1."):
            yield "version of the tables", 0, 1, None, self._version[:20]

    def _stated_ranks(self, beside: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
        """The rank by the place that states it, the most reliable one first."""
        mapped = self._distinct(_MAP, "rankId")
        named = PROFILES.search(self._path.name)
        is_named = named and named["number"] and named[1] == "ascend_pytorch_profiler"
        source, rank = beside.get(Metadata.RANK_SOURCE), beside.get(Metadata.RANK)
        by_folder = source == "name of the folder"
        for place, number in (
            (_MAP, mapped[0] if len(mapped) == 1 else None),
            (str(source), None if by_folder else rank),
            ("file name", int(named["number"][:20]) if named and is_named else None),
            (str(source), rank if by_folder else None),
        ):
            # -1, and the largest number of 32 bits, stand for none.
            if type(number) is int and 0 <= number < MOST_RANKS:
                yield place, number

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
        self._texts[table] += 1
        if not isinstance(value, str):
            self._unknown[table].append(called)
            return None
        if value.encode() != content:
            self._altered[table].append(called)
        return value
