"""The values in payloads of NVTX ranges, such as sizes of messages and ranks, which NCCL gives.

A payload is a blob in the layout that tables NVTX_PAYLOAD_SCHEMA* describe: a list of parts, each
with the number of its schema, its size and its place (NVIDIA's nvtxExtPayload). Exports have the
blobs only with `--include-blobs=true`.
"""

import json
import math
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from traceql.readers.scratch import Scratch

# Types of entries, as formats of module struct (nvtxPayloadEntryType_t).
_FORMATS = dict(enumerate("bBhHiIqQqQbBhHiIqQfd", 1)) | {22: "Q"}
_PART = struct.Struct("<QQQ")  # schema, size, offset
_MOST_PARTS = 64
_AT_ONCE = 10_000
_TABLE = pa.schema(
    {"domainId": pa.int64(), "binaryData": pa.large_binary(), "value": pa.large_string()}
)
_Schema = tuple[int, int]  # domain and number


def payloads(scratch: Scratch) -> Iterator[pa.Table]:
    """The values of each distinct payload of a domain as JSON; `{}` if its layout is unknown."""
    entries: defaultdict[_Schema, list[Any]] = defaultdict(list)
    names: defaultdict[_Schema, dict[int, str]] = defaultdict(dict)
    for domain, schema, *entry in scratch.rows(
        """
        SELECT domainId, schemaId, COALESCE(name, 'None'), type, COALESCE("offset", 0) AS place
        FROM NVTX_PAYLOAD_SCHEMA_ENTRIES
        WHERE place >= 0
        ORDER BY domainId, schemaId, idx
        """
    ):
        entries[domain, schema].append(entry)
    for domain, schema, name, value in scratch.rows(
        "SELECT domainId, schemaId, COALESCE(name, 'None'), COALESCE(value, 0) "
        "FROM NVTX_PAYLOAD_ENUM_ENTRIES"
    ):
        names[domain, schema][value] = name
    yield _TABLE.empty_table()
    with scratch.con.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT domainId, binaryData FROM NVTX_EVENTS WHERE binaryData IS NOT NULL"
        )
        while rows := cursor.fetchmany(_AT_ONCE):
            found = [dict(_values(domain, blob, entries, names)) for domain, blob in rows]
            texts = [json.dumps(values, ensure_ascii=False) for values in found]
            yield pa.table([*map(list, zip(*rows, strict=True)), texts], schema=_TABLE)


def _values(
    domain: int,
    blob: bytes,
    entries: Mapping[_Schema, list[Any]],
    names: Mapping[_Schema, dict[int, str]],
) -> Iterator[tuple[str, Any]]:
    """Names and values, without NaN; it ends where a blob is shorter than it says."""
    try:
        for part in range(min(int.from_bytes(blob[:8], "little"), _MOST_PARTS)):
            schema, size, place = _PART.unpack_from(blob, 8 + part * _PART.size)
            for name, kind, start in entries.get((domain, schema), ()):
                known = names.get((domain, kind))
                form = _FORMATS.get(kind) if known is None else "i"
                if form:
                    (value,) = struct.unpack_from(f"<{form}", blob[place : place + size], start)
                    shown = value if math.isfinite(value) else str(value)
                    yield name, (known or {}).get(value, shown)
    except struct.error:
        return
