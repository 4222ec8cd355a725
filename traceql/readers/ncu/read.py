"""Reads a file of Nsight Compute: CSV, or a report with NVIDIA's module ncu_report."""

import importlib.util
import math
import shutil
import sys
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pyarrow as pa

from traceql.errors import ProfileSkipped, TraceCorrupt, reason
from traceql.readers.ncu.csv_file import csv_profile
from traceql.readers.ncu.csv_text import REPORTS, csv_text
from traceql.readers.ncu.values import LAUNCH, MetricRows, Number, Profile, Remark, is_series
from traceql.util.files import Unusable, read_bytes

_MODULE = "ncu_report"
_FOLDER = Path("extras") / "python"  # of the tool


class ModuleMissing(Unusable):
    """NVIDIA's module is not installed."""


class ReportProfile(NamedTuple):
    """The contents of a report; see traceql.readers.ncu.values."""

    launches: pa.Table
    metrics: pa.Table
    remarks: list[Remark]


def report_profile(path: Path) -> ReportProfile:
    """The launches and metrics of a report.

    Raises:
        ModuleMissing: the module is not installed; the message has an alternative.
        Unusable: the module cannot read the report, or it has no launch.
    """
    module = _module(path)
    try:
        report = module.load_report(str(path))
        actions = [
            part.action_by_idx(number)
            for part in map(report.range_by_idx, range(report.num_ranges()))
            for number in range(part.num_actions())
        ]
        rows = MetricRows(None)
        launches = [_launch(action, index, rows) for index, action in enumerate(actions)]
        total = sum(
            1 for action in actions for name in action.metric_names() if not is_series(name)
        )
    except Exception as error:
        raise Unusable(f"NVIDIA's module {_MODULE} cannot read it: {reason(error)}") from None
    if not launches:
        raise Unusable("an empty profile: it has no launch; see that ncu profiles a kernel")
    note = "values in table kernel_metric; metrics in the report"
    kept = Remark("values of the profile", rows.count, total, rows.count == total, note)
    return ReportProfile(pa.Table.from_pylist(launches, LAUNCH), rows.table(), [kept])


def _module(path: Path) -> ModuleType:
    if importlib.util.find_spec(_MODULE) is None:
        tool = shutil.which("ncu")
        folders = [parent / _FOLDER for parent in Path(tool).resolve().parents] if tool else []
        found = next((folder for folder in folders if (folder / f"{_MODULE}.py").is_file()), None)
        if found is None:
            raise ModuleMissing(
                f"a report of Nsight Compute, which only NVIDIA's module {_MODULE} can read, and "
                f"it is not installed; where the tool is, run ncu -i {path.name} --csv --page raw "
                f"--print-units base > {path.stem}.csv, and load that file"
            )
        sys.path.append(str(found))
    try:
        return import_module(_MODULE)
    except Exception as error:
        raise Unusable(f"NVIDIA's module {_MODULE} cannot be imported: {reason(error)}") from None


def _launch(action: Any, index: int, rows: MetricRows) -> Mapping[str, Any]:
    """The row of a launch, whose metrics are added to `rows`."""
    values: dict[str, Any] = {}
    for name in action.metric_names():
        if is_series(name):
            continue
        metric = action[name]
        value = values[name] = metric.value()
        is_number = isinstance(value, int | float) and math.isfinite(value)
        found = Number(float(value), 0.0) if is_number else "" if value is None else str(value)
        rows.add_value(index, None, name, metric.unit() or "", found)
    name = action.name(action.NameBase_DEMANGLED)
    major, minor = (
        values.get(f"device__attribute_compute_capability_{part}") for part in ("major", "minor")
    )
    return {
        "index": index,
        "number": index,
        "process_id": None,
        "device": values.get("launch__device_id"),
        "device_name": values.get("device__attribute_display_name"),
        "compute_capability": None if major is None else f"{major}.{minor}",
        "context": values.get("launch__context_id"),
        "stream": values.get("launch__stream_id"),
        "name": name,
        "kind": _kind(action),
        "grid": _sizes(values, "grid"),
        "block": _sizes(values, "block"),
        "ranges": list(_ranges(action)),
    }


def _kind(action: Any) -> str:
    if not hasattr(action, "workload_type"):  # older versions profile only kernels
        return "kernel"
    kinds = {action.WorkloadType_GRAPH: "graph", action.WorkloadType_RANGE: "range"}
    return kinds.get(action.workload_type(), "kernel")


def _sizes(values: Mapping[str, Any], what: str) -> list[int] | None:
    sizes = [values.get(f"launch__{what}_dim_{axis}") for axis in "xyz"]
    return [int(size) for size in sizes if size is not None] if None not in sizes else None


def _ranges(action: Any) -> Iterator[str]:
    """The NVTX ranges around the launch, the outermost one of each domain first."""
    state = action.nvtx_state()
    if state:
        for number in state.domains():
            domain = state.domain_by_id(number)
            yield from domain.push_pop_ranges()
            yield from domain.start_end_ranges()


def read_profile(path: Path) -> Profile:
    """The contents of a file of Nsight Compute.

    Raises:
        ProfileSkipped: it is a report, and the module for reports is not installed.
        TraceCorrupt: it cannot be used; the message has the reason.
    """
    try:
        file = read_bytes(path)
        if path.name.endswith(REPORTS):
            page, (launches, metrics, remarks) = "report", report_profile(path)
        else:
            page, launches, metrics, remarks = csv_profile(csv_text(file))
    except ModuleMissing as error:
        raise ProfileSkipped(f"{path}: {error}") from None
    except Unusable as error:
        raise TraceCorrupt(f"{path}: {error}") from None
    digest = sha256(file).hexdigest()
    return Profile(path, digest, len(file), page, launches, metrics, remarks)
