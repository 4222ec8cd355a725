"""The reader of Ascend profiles in text form: trace_view.json of torch_npu, msprof_*.json."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceql.readers.contract import Reader
from traceql.readers.formats.ascend.layout import is_superseded, traces_of_folder

if TYPE_CHECKING:
    from traceql.readers.tables import TraceTables


def _recognises(path: Path) -> bool:
    from traceql.readers.formats.ascend.recognition import is_ascend

    return is_ascend(path)


def _read(path: Path, *, trace_processor: Path | None) -> "Iterator[TraceTables]":
    from traceql.readers.formats.ascend.read import read_ascend

    return read_ascend(path, trace_processor=trace_processor)


def _feed(path: Path, base_ns: int, metadata: Mapping[str, Any]) -> Iterator[bytes]:
    from traceql.readers.formats.ascend.read import perfetto_feed

    return perfetto_feed(path, base_ns, metadata)


READER = Reader(
    name="ascend",
    format="ascend json",
    suffixes=(".json", ".json.gz"),
    dialect="ascend",
    recognises=_recognises,
    read=_read,
    feed=_feed,
    is_superseded=is_superseded,
    traces_of_folder=traces_of_folder,
)
