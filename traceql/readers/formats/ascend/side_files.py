"""The files beside a trace: the rank, versions, groups, rows of tables, operations.

A file that is absent counts as empty, and so does one that is damaged; the latter is noted.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

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
_TABLES = ("kernel_details.csv", "memory_record.csv", "npu_module_mem.csv", "step_trace_time.csv")
_TEXT, _NUMBER = pa.large_string(), pa.float64()
_ROWS = pa.schema({"file": _TEXT, "place": pa.int64(), "cells": pa.map_(_TEXT, _TEXT)})
_OPERATIONS = pa.schema(
    {"name": _TEXT, "communicator": _TEXT, "elapse_ms": _NUMBER, "transit_ms": _NUMBER}
)
Row = Mapping[str, str]


class SideFiles:
    """The files in the folder of a trace and, of torch_npu's, in the folder of the rank.

    Args:
        export: text or db, the form of the trace.
        stated: values of profiler_metadata.json that the trace itself has.
        device: the only device to read the rows of, where one trace is of several; then the rank is
            not that of the files.

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

    def rows(self) -> Iterator[pa.Table]:
        """The rows of all CSV tables in batches; each cell by the name of its column."""
        yield _ROWS.empty_table()
        for file in _TABLES:
            rows = enumerate(self._rows(file))
            while batch := [(file, place, [*row.items()]) for place, row in islice(rows, 1 << 12)]:
                yield pa.table([*zip(*batch, strict=True)], schema=_ROWS)

    def operations(self) -> pa.Table:
        """The operations in communication.json, each with its communicator; a missing time is 0."""
        rows = [
            {"name": name, "communicator": communicator}
            | {"elapse_ms": _ms(content, "Elapse"), "transit_ms": _ms(content, "Transit")}
            for step in self._document(self._output / "communication.json").values()
            for kind in _object(step).values()
            for called, content in _object(kind).items()
            for name, _, communicator in [called.partition("@")]
            if isinstance(content, dict) and name != "Total Op Info"
        ]
        return pa.Table.from_pylist(rows, _OPERATIONS)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """What is known of the rank, by `Metadata`; what is unknown has no key."""
        layout = _object(self._metadata.get("distributed_args"))
        level = _object(_object(self._info.get("config")).get("experimental_config"))
        rank, source = next(self._ranks(layout), (None, "order of files"))
        known = {
            Metadata.EXPORT: self._export,
            Metadata.RANK: rank,
            Metadata.WORLD_SIZE: _number(layout.get("world_size")),
            Metadata.RANK_SOURCE: source,
            Metadata.DEVICE: self._device,
            Metadata.GROUPS: [*self._groups()],
            Metadata.LAYOUT: layout,
            Metadata.TORCH_NPU: self._info.get("torch_npu_version"),
            Metadata.CANN: self._info.get("cann_version"),
            Metadata.LEVEL: str(level.get("_profiler_level") or "") or None,
        }
        return {key.value: value for key, value in known.items() if value not in (None, {}, [])}

    def _ranks(self, layout: Mapping[str, Any]) -> Iterator[tuple[int | None, str]]:
        """The rank by the place that states it, the most reliable one first."""
        if self._only is not None:
            yield None, "order of devices"
        if (rank := _number(self._info.get("rank_id"))) is not None:
            yield rank, "profiler_info"
        if (rank := _number(layout.get("rank"))) is not None:
            yield rank, "profiler_metadata.json"
        if named := _RANK_OF_FOLDER.search(self._rank_folder.name):
            yield int(named[1]), "name of the folder"

    @cached_property
    def _info(self) -> Mapping[str, Any]:
        found = [p for p in sorted(self._rank_folder.iterdir()) if _INFO.fullmatch(p.name)]
        return self._document(found[0]) if found else {}

    @cached_property
    def _metadata(self) -> Mapping[str, Any]:
        return {**self._document(self._rank_folder / "profiler_metadata.json"), **self._stated}

    def _groups(self) -> Iterator[dict[str, Any]]:
        for key, group in _object(self._metadata.get("parallel_group_info")).items():
            if is_ranks(ranks := _object(group).get("global_ranks")):
                yield {
                    Metadata.GROUP_NAME.value: key,
                    Metadata.GROUP_DESCRIPTION.value: str(group.get("group_name") or ""),
                    Metadata.GROUP_RANKS.value: ranks,
                }

    @cached_property
    def _device(self) -> int | None:
        """The number of the NPU, if the files name one and only one."""
        cells = (row.get(name, "") for file, name in _DEVICE_COLUMNS for row in self._rows(file))
        named = {found[1] for cell in cells if (found := _DEVICE.fullmatch(cell))}
        return int(named.pop()) if self._only is None and len(named) == 1 else self._only

    def _rows(self, name: str) -> Sequence[Row]:
        """The rows of a CSV file beside the trace; cells without the tab that ends times.

        Programs of some locales save it with semicolons, and with commas in numbers.
        """
        text = self._text(self._output / name)
        if text and not text.endswith("\n"):
            self._note(f"{name}: its last line, which is cut off")
            text = text[: text.rfind("\n") + 1]
        header = text.partition("\n")[0]
        is_local = header.count(";") > header.count(",")
        read = csv.DictReader(StringIO(text), strict=True, delimiter=";" if is_local else ",")
        try:
            rows = [
                {k.strip(): _cell(cell or "", is_local=is_local) for k, cell in row.items()}
                for row in read
                if None not in row  # there are more cells than columns
            ]
        except csv.Error as error:
            self._note(f"{name}: {error}")
            return []
        return [row for row in rows if self._only is None or self._is_of_device(row)]

    def _is_of_device(self, row: Row) -> bool:
        """Whether a row is of the only device; so are those that name none."""
        cells = (row.get(column, "").removeprefix("NPU").lstrip(": ") for column in _OF_DEVICE)
        return all(not cell.isdecimal() or int(cell) == self._only for cell in cells)

    def _document(self, path: Path) -> Mapping[str, Any]:
        try:
            found = json.loads(repaired_json((self._text(path) or "{}").encode()))
        except (ValueError, RecursionError):
            self._note(f"{path.name}: damaged JSON")
            return {}
        if not isinstance(found, dict):
            self._note(f"{path.name}: no JSON object")
        return _object(found)

    def _text(self, path: Path) -> str:
        """The content of a file, or of the same file compressed; empty if there is none."""
        for candidate in (path, path.with_name(f"{path.name}.gz")):
            if candidate.is_file():
                try:
                    return b"".join(pieces(candidate, 1 << 20)).decode("utf-8-sig")
                except UnicodeDecodeError:
                    self._note(f"{candidate.name}: damaged, or no UTF-8")
                except (OSError, TraceCorrupt) as error:
                    self._note(f"{candidate.name}: {error}")
                return ""
        return ""

    def _note(self, reason: str) -> None:
        """Notes once why a file could not be used."""
        if reason not in self.damaged:
            self.damaged.append(reason)


def _object(value: Any) -> Mapping[str, Any]:
    """A JSON object; an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def _ms(operation: Mapping[str, Any], what: str) -> float:
    ms = _object(operation.get("Communication Time Info")).get(f"{what} Time(ms)")
    return float(ms) if isinstance(ms, int | float) else 0.0


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
