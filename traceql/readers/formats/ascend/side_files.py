"""What the files beside a trace tell: the rank, versions, groups, and who made the kernels.

A file that is absent says nothing, and so does one that is damaged; the latter is noted.
"""

import csv
import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

from traceql.errors import TraceCorrupt
from traceql.readers.dialects.ascend.vocabulary import MOST_RANKS, Metadata
from traceql.readers.dialects.facts import is_ranks
from traceql.readers.formats.ascend.layout import OUTPUTS
from traceql.readers.formats.kineto.kineto_json import repaired_json
from traceql.readers.unpacked import pieces

_LOCAL_NUMBER = re.compile(r"-?\d+,\d+")
_INFO = re.compile(r"profiler_info(_\d+)?\.json(\.gz)?")
_RANK_OF_FOLDER = re.compile(r"(?:^|[_\-.])rank[_\-]?([0-9]{1,9})(?=[^0-9]|$)", re.IGNORECASE)
_DEVICE_COLUMNS = (("memory_record.csv", "Device Type"), ("npu_module_mem.csv", "Device"))
_DEVICE = re.compile(r"NPU:?\s*([0-9]{1,6})")
_OF_DEVICE = ("Device_id", "Device Type", "Device")
Row = Mapping[str, str]


class SideFiles:
    """The files in the folder of a trace and, of torch_npu's, in the folder of the rank.

    Args:
        export: text or db, the form of the trace.
        stated: what the trace itself says of what profiler_metadata.json has.
        device: the only device to read the rows of, where one trace is of several; then the files
            do not tell the rank.

    Attributes:
        damaged: a sentence for each file that could not be used.
    """

    def __init__(
        self,
        trace: Path,
        *,
        export: str = "text",
        stated: Mapping[str, Any] | None = None,
        device: int | None = None,
    ) -> None:
        self._export, self._stated, self._only = export, stated or {}, device
        self._output = trace.parent
        self._rank_folder = trace.parent.parent if trace.parent.name in OUTPUTS else trace.parent
        self.damaged: list[str] = []

    def rows(self, name: str) -> Sequence[Row]:
        """The rows of a CSV file beside the trace; cells without the tab that ends times.

        Programs of some locales save it with semicolons, and with commas in numbers.
        """
        text = self._text(self._output / name)
        header = text.partition("\n")[0]
        is_local = header.count(";") > header.count(",")
        try:
            read = csv.DictReader(StringIO(text), strict=True, delimiter=";" if is_local else ",")
            cells = (
                {
                    key.strip(): _cell(cell or "", is_local=is_local)
                    for key, cell in row.items()
                    if key is not None
                }
                for row in read
                if None not in row
            )
            return [row for row in cells if self._only is None or self._is_of_device(row)]
        except csv.Error as error:
            self._note(f"{name}: {error}")
            return []

    def _is_of_device(self, row: Row) -> bool:
        """Whether a row is of the only device; so are those that tell none."""
        cells = (row.get(column, "").removeprefix("NPU").lstrip(": ") for column in _OF_DEVICE)
        return all(not cell.isdecimal() or int(cell) == self._only for cell in cells)

    def _note(self, reason: str) -> None:
        """Notes once why a file could not be used."""
        if reason not in self.damaged:
            self.damaged.append(reason)

    def document(self, name: str) -> Mapping[str, Any]:
        """A JSON object beside the trace."""
        return self._document(self._output / name)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """What is known of the rank, by `Metadata`; what is unknown has no key."""
        args = self._metadata.get("distributed_args")
        layout = args if isinstance(args, dict) else {}
        rank, source = self._rank_and_source(layout)
        known = {
            Metadata.EXPORT: self._export,
            Metadata.RANK: rank,
            Metadata.WORLD_SIZE: _number(layout.get("world_size")),
            Metadata.RANK_SOURCE: source,
            Metadata.DEVICE: self._device,
            Metadata.GROUPS: self._groups,
            Metadata.LAYOUT: layout,
            Metadata.TORCH_NPU: self._info.get("torch_npu_version"),
            Metadata.CANN: self._info.get("cann_version"),
            Metadata.LEVEL: self._level,
        }
        return {key.value: value for key, value in known.items() if value not in (None, {}, [])}

    def _rank_and_source(self, layout: Mapping[str, Any]) -> tuple[int | None, str]:
        if self._only is not None:
            return None, "order of devices"
        if (rank := _number(self._info.get("rank_id"))) is not None:
            return rank, "profiler_info"
        if (rank := _number(layout.get("rank"))) is not None:
            return rank, "profiler_metadata.json"
        named = _RANK_OF_FOLDER.search(self._rank_folder.name)
        return (int(named[1]), "name of the folder") if named else (None, "order of files")

    @cached_property
    def _info(self) -> Mapping[str, Any]:
        found = [p for p in sorted(self._rank_folder.iterdir()) if _INFO.fullmatch(p.name)]
        return self._document(found[0]) if found else {}

    @cached_property
    def _metadata(self) -> Mapping[str, Any]:
        return {**self._document(self._rank_folder / "profiler_metadata.json"), **self._stated}

    @property
    def _level(self) -> str | None:
        config = self._info.get("config")
        settings = config.get("experimental_config") if isinstance(config, dict) else None
        level = settings.get("_profiler_level") if isinstance(settings, dict) else None
        return str(level) if level else None

    @property
    def _groups(self) -> list[dict[str, Any]]:
        listed = self._metadata.get("parallel_group_info")
        return [
            {
                Metadata.GROUP_NAME.value: key,
                Metadata.GROUP_DESCRIPTION.value: str(group.get("group_name") or ""),
                Metadata.GROUP_RANKS.value: group["global_ranks"],
            }
            for key, group in (listed.items() if isinstance(listed, dict) else ())
            if isinstance(group, dict) and is_ranks(group.get("global_ranks"))
        ]

    @cached_property
    def _device(self) -> int | None:
        """The number of the NPU, if the files name one and only one."""
        if self._only is not None:
            return self._only
        named = {
            found[1]
            for file, column in _DEVICE_COLUMNS
            for row in self.rows(file)
            if (found := _DEVICE.fullmatch(row.get(column, "")))
        }
        return int(named.pop()) if len(named) == 1 else None

    def _document(self, path: Path) -> Mapping[str, Any]:
        text = self._text(path)
        try:
            found = json.loads(repaired_json((text or "{}").encode()))
        except (ValueError, RecursionError):
            self._note(f"{path.name}: damaged JSON")
            return {}
        if not isinstance(found, dict):
            self._note(f"{path.name}: no JSON object")
            return {}
        return found

    def _text(self, path: Path) -> str:
        """The content of a file, or of the same file compressed; empty if there is none."""
        for candidate in (path, path.with_name(f"{path.name}.gz")):
            if candidate.is_file():
                try:
                    content = b"".join(pieces(candidate, 1 << 20))
                    return content.decode("utf-8-sig")
                except UnicodeDecodeError:
                    self._note(f"{candidate.name}: damaged, or no UTF-8")
                    return ""
                except (OSError, TraceCorrupt) as error:
                    self._note(f"{candidate.name}: {error}")
                    return ""
        return ""


def _cell(text: str, *, is_local: bool) -> str:
    """A cell of a CSV file, with a point in its number."""
    text = text.strip()
    return text.replace(",", ".") if is_local and _LOCAL_NUMBER.fullmatch(text) else text


def _number(value: object) -> int | None:
    """A rank or a size: a number from 0, also as text. -1 stands for none."""
    try:
        number = int(value) if isinstance(value, int | str) else -1
    except ValueError:
        return None
    return number if 0 <= number < MOST_RANKS else None
