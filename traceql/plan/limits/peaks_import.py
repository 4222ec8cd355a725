"""Makes a peaks.json from results of nccl-tests and nvbandwidth."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from traceql.database.loading.inputs import SCHEMA_VERSION, PeaksDocument, peaks_document
from traceql.database.loading.run_directory import checked, json_document
from traceql.errors import PeaksInvalid
from traceql.plan.limits import nccl_tests, nvbandwidth
from traceql.util.files import Unusable, path_text, replace_file


def import_peaks(
    files: Sequence[Path], *, buffer_mib: int, now: datetime
) -> tuple[dict[str, Any], list[str]]:
    """A peaks.json with the rows of all files, and all of at most one peaks.json among them.

    Returns:
        The document, and for each file the tests that have no place in it.

    Raises:
        PeaksInvalid: a file cannot be used, or they are of different GPUs; the message says which.
    """
    base: Mapping[str, Any] | None = None
    imported: list[PeaksDocument] = []
    devices: dict[str, Path] = {}  # the first file of each
    left_out = []
    for path in files:
        content = _read(path, buffer_mib)
        if isinstance(content, tuple):
            found, tests = content
            imported.append(found)
            left_out += [f"{path}: {', '.join(tests)}"] if tests else []
            devices.setdefault(found.device_name, path)
        elif base is not None:
            raise PeaksInvalid(f"{path} is a second peaks.json; import into one at a time")
        else:
            base = content
            devices.setdefault(str(base["device_name"]), path)
    (device, first), *others = devices.items()
    for other, path in others:
        raise PeaksInvalid(
            f"{first} is of {device}, {path} of {other}; a peaks.json is of GPUs of one name"
        )
    empty = {
        "measured": now.isoformat(timespec="seconds"),
        "device_name": device,
        "kernel": None,
        **{key: list[Any]() for key in ("memory", "products", "collectives")},
    }
    document = {**(base or empty), "schema_version": SCHEMA_VERSION}
    for key in ("memory", "collectives", "host_copies", "sources"):
        rows = (msgspec.structs.asdict(row) for one in imported for row in getattr(one, key))
        known = ({name: each for name, each in row.items() if each is not None} for row in rows)
        document[key] = [*document.get(key, []), *known]
    return document, left_out


def write_peaks(path: Path, document: Mapping[str, Any]) -> None:
    """Replaces a peaks.json; raises TraceqlError if it cannot be written."""
    replace_file(path, (json.dumps(document, indent=1) + "\n").encode())


def _read(path: Path, buffer_mib: int) -> tuple[PeaksDocument, Sequence[str]] | Mapping[str, Any]:
    """The rows of a file of another program and the tests left out, or a peaks.json."""
    try:
        document = json_document(path)
        value, name = document.value, path_text(Path(path.name))
        if nccl_tests.is_report(value):
            return nccl_tests.peaks(checked(value, nccl_tests.Report), name), ()
        if nvbandwidth.is_report(value):
            report = checked(value, nvbandwidth.Report)
            return nvbandwidth.peaks(report, name, buffer_mib=buffer_mib)
        if not isinstance(value, dict) or "schema_version" not in value:
            raise Unusable(
                "neither a file of nccl-tests (-J), nor of nvbandwidth (-j), nor a peaks.json"
            )
        peaks_document(document.text)
    except Unusable as error:
        raise PeaksInvalid(f"cannot import {path}: {error}") from None
    return value
