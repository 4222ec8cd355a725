"""The values in payloads of NVTX ranges, such as sizes of messages and ranks, which NCCL gives.

A payload is a blob in the layout that tables NVTX_PAYLOAD_SCHEMA* describe: a list of parts, each
with the number of its schema, its size and its place (NVIDIA's nvtxExtPayload). Exports have the
blobs only with `--include-blobs=true`.
"""

import json
import math
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from traceql.readers.scratch import Scratch

# Types of entries, as formats of module struct (nvtxPayloadEntryType_t).
_FORMATS = dict(enumerate("bBhHiIqQqQbBhHiIqQfd", 1)) | {22: "Q"}
_PART = struct.Struct("<QQQ")  # schema, size, offset
_COUNT = struct.Struct("<Q")
_MOST_PARTS = 64
_AT_ONCE = 10_000
_Schema = tuple[int, int]  # domain and number of a schema
_Entries = Mapping[_Schema, Sequence[tuple[str, int, int]]]  # name, type and place of each
_Enums = Mapping[_Schema, Mapping[int, str]]
_TABLE = pa.schema(
    [("domainId", pa.int64()), ("binaryData", pa.large_binary()), ("value", pa.large_string())]
)


def payloads(scratch: Scratch) -> Iterator[pa.Table]:
    """The values of each distinct payload of a domain as JSON; `{}` if its layout is unknown."""
    entries: defaultdict[_Schema, list[tuple[str, int, int]]] = defaultdict(list)
    for domain, schema, name, kind, place in scratch.rows(
        """
        SELECT domainId, schemaId, CAST(name AS VARCHAR), type, COALESCE("offset", 0)
        FROM NVTX_PAYLOAD_SCHEMA_ENTRIES
        WHERE COALESCE("offset", 0) >= 0
        ORDER BY domainId, schemaId, idx
        """
    ):
        entries[domain, schema].append((str(name), kind, place))
    enums: defaultdict[_Schema, dict[int, str]] = defaultdict(dict)
    for domain, schema, name, value in scratch.rows(
        "SELECT domainId, schemaId, name, COALESCE(value, 0) FROM NVTX_PAYLOAD_ENUM_ENTRIES"
    ):
        enums[domain, schema][value] = str(name)
    yield _TABLE.empty_table()
    with scratch.con.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT domainId, binaryData FROM NVTX_EVENTS WHERE binaryData IS NOT NULL"
        )
        while rows := cursor.fetchmany(_AT_ONCE):
            found = [dict(_values(domain, blob, entries, enums)) for domain, blob in rows]
            texts = [json.dumps(values, ensure_ascii=False) for values in found]
            yield pa.table([*map(list, zip(*rows, strict=True)), texts], schema=_TABLE)


def _values(
    domain: int, blob: bytes, entries: _Entries, enums: _Enums
) -> Iterator[tuple[str, Any]]:
    """Names and values; it ends where a blob is shorter than it says."""
    try:
        (parts,) = _COUNT.unpack_from(blob)
        for number in range(min(parts, _MOST_PARTS)):
            schema, size, place = _PART.unpack_from(blob, _COUNT.size + number * _PART.size)
            data = blob[place : place + size]
            for name, kind, start in entries.get((domain, schema), ()):
                names = enums.get((domain, kind))
                form = "i" if names is not None else _FORMATS.get(kind)
                if form is not None:
                    (value,) = struct.unpack_from(f"<{form}", data, start)
                    yield name, _shown(value, names or {})
    except struct.error:
        return


def _shown(value: Any, names: Mapping[int, str]) -> Any:
    """The name of a value, if it has one; JSON has no NaN."""
    return names.get(value, value if math.isfinite(value) else str(value))
