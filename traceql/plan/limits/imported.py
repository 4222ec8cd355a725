"""Makes a peaks.json of files of other programs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from traceql.database.loading.peaks import SCHEMA_VERSION, peaks_document
from traceql.database.loading.run_directory import checked, json_document
from traceql.errors import PeaksInvalid
from traceql.plan.limits import nccl_tests, nvbandwidth
from traceql.plan.limits.found import Found
from traceql.util.files import Unusable, path_text, write_whole


@dataclass(frozen=True)
class Imported:
    """A peaks.json that files make together.

    Attributes:
        document: what it holds.
        left_out: the tests in the files that have no place in it, after the names of the files.
    """

    document: Mapping[str, Any]
    left_out: Sequence[str]


def imported(files: Sequence[Path], *, buffer_mib: int, now: datetime) -> Imported:
    """The rows of all files, and everything of at most one peaks.json among them.

    Args:
        buffer_mib: the --bufferSize of nvbandwidth, which its files do not tell.
        now: stands for the time of the measurement where there is no peaks.json.

    Raises:
        PeaksInvalid: a file cannot be used, or they are of different GPUs; the message says which.
    """
    read = [(path, _read(path, buffer_mib)) for path in files]
    found = [(path, one) for path, one in read if isinstance(one, Found)]
    measured = [(path, one) for path, one in read if not isinstance(one, Found)]
    if len(measured) > 1:
        raise PeaksInvalid(f"{measured[1][0]} is a second peaks.json; import into one at a time")
    _require_one_device([(path, _device_name(one)) for path, one in read])
    base = measured[0][1] if measured else _empty(_device_name(read[0][1]), now)
    document = {**base, "schema_version": SCHEMA_VERSION}
    for key in ("memory", "collectives", "host_copies"):
        rows = (row for _, one in found for row in getattr(one, key))
        document[key] = [*base.get(key, []), *map(_plain, rows)]
    document["sources"] = [*base.get("sources", []), *(_plain(one.source) for _, one in found)]
    left_out = [f"{path}: {', '.join(one.left_out)}" for path, one in found if one.left_out]
    return Imported(document, left_out)


def write_imported(path: Path, document: Mapping[str, Any]) -> None:
    """Replaces a peaks.json.

    Raises:
        TraceqlError: it cannot be written.
    """
    write_whole(path, (json.dumps(document, indent=1) + "\n").encode())


def _read(path: Path, buffer_mib: int) -> Found | Mapping[str, Any]:
    """The rows of a file of another program, or the content of a peaks.json."""
    try:
        document = json_document(path)
        value, name = document.value, path_text(Path(path.name))
        if nccl_tests.is_report(value):
            return nccl_tests.found(checked(value, nccl_tests.Report), name)
        if nvbandwidth.is_report(value):
            report = checked(value, nvbandwidth.Report)
            return nvbandwidth.found(report, name, buffer_mib=buffer_mib)
        if not isinstance(value, dict) or "schema_version" not in value:
            raise Unusable(
                "neither a file of nccl-tests (-J), nor of nvbandwidth (-j), nor a peaks.json"
            )
        peaks_document(document.text)
    except Unusable as error:
        raise PeaksInvalid(f"cannot import {path}: {error}") from None
    return value


def _device_name(one: Found | Mapping[str, Any]) -> str:
    return one.device_name if isinstance(one, Found) else str(one["device_name"])


def _require_one_device(named: Iterable[tuple[Path, str]]) -> None:
    (first, name), *others = named
    for path, other in others:
        if other != name:
            raise PeaksInvalid(
                f"{first} is of {name}, {path} of {other}; a peaks.json is of GPUs of one name"
            )


def _empty(device_name: str, now: datetime) -> Mapping[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "measured": now.isoformat(timespec="seconds"),
        "device_name": device_name,
        "kernel": None,
        "memory": [],
        "products": [],
        "collectives": [],
    }


def _plain(row: msgspec.Struct) -> dict[str, Any]:
    """Without what is not known."""
    return {name: value for name, value in msgspec.structs.asdict(row).items() if value is not None}
