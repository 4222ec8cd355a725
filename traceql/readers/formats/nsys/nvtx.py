"""What NVTX ranges tell beside their names: domain, category, colour, and payload.

A payload is a blob in the layout that tables NVTX_PAYLOAD_SCHEMA* describe: a list of parts, each
with the number of its schema, its size and its place (NVIDIA's nvtxExtPayload). NCCL gives sizes of
messages and ranks this way. Exports have the blobs only with `--include-blobs=true`.
"""

import json
import math
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.processes import pid_of, tid_of
from traceql.readers.sqlite_pages import ROWID

EVENTS = "NVTX_EVENTS"
_ENTRIES = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
_ENUM_ENTRIES = "NVTX_PAYLOAD_ENUM_ENTRIES"
DOMAIN_CREATE = 75  # NVTX_EVENTS.eventType
# Types of entries, as formats of module struct (nvtxPayloadEntryType_t).
_FORMATS = {
    1: "b",
    2: "B",
    3: "h",
    4: "H",
    5: "i",
    6: "I",
    7: "q",
    8: "Q",
    9: "q",
    10: "Q",
    11: "b",
    12: "B",
    13: "h",
    14: "H",
    15: "i",
    16: "I",
    17: "q",
    18: "Q",
    19: "f",
    20: "d",
    22: "Q",
}
_PART = struct.Struct("<QQQ")  # schema, size, offset
_COUNT = struct.Struct("<Q")
_MOST_PARTS = 64
_MOST_KNOWN = 10_000  # payloads that are remembered, because many are the same
_Schema = tuple[int, int]  # domain and number of a schema


@dataclass
class Nvtx:
    """The NVTX ranges of an export."""

    export: Export
    _known: dict[tuple[Any, bytes], Mapping[str, Any]] = field(default_factory=dict)

    def arguments(self, condition: str | None) -> dict[int, str]:
        """The arguments of those of some events that have any, as JSON, by row number.

        Args:
            condition: that for the events, in SQL; None for no event.
        """
        if condition is None:
            return {}
        column = {name: self.export.column(EVENTS, name) for name in _COLUMNS}
        rows = self.export.each(
            f"""
            SELECT {ROWID}, globalTid, {", ".join(column.values())}
            FROM {EVENTS}
            WHERE {condition} AND (
                {" OR ".join(f"{text} <> 0" for text in column.values())}
                OR {column["binaryData"]} IS NOT NULL
            )
            """
        )
        return {row: text for row, *told in rows if (text := self._text(*told))}

    def _text(
        self,
        thread: Any,
        domain: Any,
        category: Any,
        color: Any,
        end_thread: Any,
        blob: Any,
    ) -> str:
        told: dict[str, Any] = {}
        if domain:
            told["domain"] = self._domains.get((_pid(thread), domain), str(domain))
        if isinstance(category, int):
            told["category"] = category
        if isinstance(color, int):
            told["color"] = color
        if isinstance(end_thread, int) and isinstance(thread, int) and end_thread != thread:
            told["end thread"] = tid_of(end_thread)
        if isinstance(blob, bytes):
            told["payload"] = self.payload(domain, blob)
        return json.dumps(told, ensure_ascii=False) if told else ""

    def payload(self, domain: Any, blob: bytes) -> Mapping[str, Any]:
        """The values in a blob by their names; empty if its layout is unknown."""
        if (domain, blob) not in self._known:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[domain, blob] = dict(self._values(domain, blob))
        return self._known[domain, blob]

    def _values(self, domain: Any, blob: bytes) -> Iterator[tuple[str, Any]]:
        try:
            (parts,) = _COUNT.unpack_from(blob)
            for number in range(min(parts, _MOST_PARTS)):
                schema, size, place = _PART.unpack_from(blob, _COUNT.size + number * _PART.size)
                yield from self._entries_in((domain, schema), blob[place : place + size])
        except struct.error:  # shorter than it says
            return

    def _entries_in(self, schema: _Schema, data: bytes) -> Iterator[tuple[str, Any]]:
        for name, kind, place in self._entries.get(schema, ()):
            names = self._enums.get((schema[0], kind))
            form = "i" if names is not None else _FORMATS.get(kind)
            if form is not None:
                (value,) = struct.unpack_from(f"<{form}", data, place)
                if names is not None:
                    yield name, names.get(value, value)
                else:
                    yield name, value if math.isfinite(value) else str(value)  # JSON has no NaN

    @cached_property
    def _domains(self) -> Mapping[tuple[int, int], str]:
        """The name of each domain of each process."""
        text = self.export.column(EVENTS, "text")
        by_id = self.export.column(EVENTS, "textId")
        rows = self.export.rows(
            f"""
            SELECT
                globalTid,
                domainId,
                COALESCE({text}, (SELECT value FROM StringIds WHERE id = {by_id}))
            FROM {EVENTS}
            WHERE eventType = {DOMAIN_CREATE}
            """
        )
        return {(_pid(thread), domain): str(name) for thread, domain, name in rows}

    @cached_property
    def _entries(self) -> Mapping[_Schema, list[tuple[str, int, int]]]:
        """Name, type and place of each entry, by schema."""
        found: defaultdict[_Schema, list[tuple[str, int, int]]] = defaultdict(list)
        if self.export.has(_ENTRIES, "domainId", "schemaId", "idx", "type", "name", "offset"):
            for domain, schema, name, kind, start in self.export.rows(
                f"SELECT domainId, schemaId, name, type, offset FROM {_ENTRIES} ORDER BY 1, 2, idx"
            ):
                if isinstance(place := start or 0, int) and place >= 0:
                    found[domain, schema].append((str(name), kind, place))
        return found

    @cached_property
    def _enums(self) -> Mapping[_Schema, Mapping[int, str]]:
        """The name of each value of an enumeration, by its schema."""
        found: defaultdict[_Schema, dict[int, str]] = defaultdict(dict)
        if self.export.has(_ENUM_ENTRIES, "domainId", "schemaId", "name", "value"):
            for domain, schema, name, value in self.export.rows(
                f"SELECT domainId, schemaId, name, value FROM {_ENUM_ENTRIES}"
            ):
                found[domain, schema][value or 0] = str(name)
        return found


_COLUMNS = ("domainId", "category", "color", "endGlobalTid", "binaryData")


def _pid(thread: Any) -> int:
    return pid_of(thread) if isinstance(thread, int) else -1
