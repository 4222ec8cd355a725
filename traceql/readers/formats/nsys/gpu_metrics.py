"""Samples of GPU metrics, and the rank that each GPU is of.

A metric is one of a type, and each GPU has a type of its own, whose low byte is the number of the
GPU in TARGET_INFO_GPU. TARGET_INFO_CUDA_DEVICE says which device of a process that is.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from traceql.readers.coded import distinct_rows
from traceql.readers.formats.nsys.blocks import Blocks, RankRows, scanned
from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.processes import RankPart, is_number, pid_of
from traceql.readers.formats.nsys.rows import Rows
from traceql.readers.formats.nsys.terms import column
from traceql.readers.formats.nsys.windows import Window
from traceql.readers.remarks import Remark
from traceql.readers.sqlite_pages import ROWID

SAMPLE = pa.schema(
    [
        ("name", pa.dictionary(pa.int64(), pa.large_string())),
        ("ts", pa.int64()),
        ("value", pa.float64()),
        pa.field("type_id", pa.int64(), nullable=False),
    ]
)
METRICS = "GPU_METRICS"
TIME = "timestamp"  # its column of the time
NEEDED = (TIME, "typeId", "metricId", "value")
_NAMES, _DEVICES, _GPUS = (
    "TARGET_INFO_GPU_METRICS",
    "TARGET_INFO_CUDA_DEVICE",
    "TARGET_INFO_GPU",
)
_ROW = pa.schema(
    [
        pa.field("type_id", pa.int64(), nullable=False),
        pa.field("metric_id", pa.int64(), nullable=False),
        ("ts", pa.int64()),
        ("value", pa.float64()),
    ]
)
_GPU = 0xFF  # of the number of a type
_LEAST_HZ = 1_000_000  # no clock of a GPU is so slow in hertz, or so fast in megahertz


def gpu_of(type_id: int) -> int:
    """The number of the GPU that has the metrics of a type."""
    return type_id & _GPU


class GpuMetrics:
    """The samples of an export by rank; those of unknown GPUs are with the first rank."""

    def __init__(self, export: Export, parts: Sequence[RankPart]) -> None:
        self._export, self._parts = export, parts

    def rows(self, part: RankPart) -> RankRows | None:
        """The samples of the GPU of a rank; None if the export has no such table."""
        if self._blocks is None:
            return None
        first = self._parts[0]
        types = [one for one in self._types if self._owners.get(one, first) is part]
        return self._blocks.of_rank([(one,) for one in types])

    def samples(self, chosen: RankRows, window: Window) -> pa.Table:
        """The samples of a rank in a window, as the table SAMPLE."""
        if (condition := chosen.condition(window)) is None:
            return SAMPLE.empty_table()
        rows = self._export.table(
            f"SELECT typeId, metricId, {TIME}, value FROM {METRICS} WHERE {condition}", _ROW
        )
        ids = [rows[name].to_numpy() for name in ("type_id", "metric_id")]
        found, place = distinct_rows(ids)
        names = pa.array([self._name(*metric) for metric in found], pa.large_string())
        name = pa.DictionaryArray.from_arrays(pa.array(place, pa.int64()), names)
        return pa.table([name, rows["ts"], rows["value"], rows["type_id"]], schema=SAMPLE)

    @cached_property
    def in_hertz(self) -> bool:
        """Whether clocks are in hertz: nsys shows megahertz, and exports say so, but hold hertz."""
        clocks = [metric for metric, name in self._names.items() if name.endswith("[MHz]")]
        if not clocks or not self._types:
            return False
        pairs = ", ".join(f"({type_id}, {metric_id})" for type_id, metric_id in clocks)
        fastest = self._export.value(
            f"SELECT MAX(value) FROM {METRICS} WHERE (typeId, metricId) IN (VALUES {pairs}) "
            "AND typeof(value) IN ('integer', 'real')"
        )
        return fastest is not None and fastest >= _LEAST_HZ

    def remarks(self) -> Iterator[Remark]:
        """What is told with the first rank: samples of GPUs that are of no rank."""
        total = sum(self._types.values())
        unknown = sum(n for type_id, n in self._types.items() if type_id not in self._owners)
        if unknown:
            gpus = sorted({gpu_of(one) for one in self._types if one not in self._owners})
            yield Remark(
                "samples of GPUs of no rank",
                unknown,
                total,
                None,
                "samples of GPU metrics that are with the first rank, on tracks of their own, "
                "because no rank is known to have run on these GPUs: "
                f"{', '.join(map(str, gpus))}; all samples of GPU metrics",
            )

    def _name(self, type_id: int, metric_id: int) -> str:
        metric = type_id, metric_id
        name = self._names.get(metric, f"metric {metric_id}")
        if self._same_names[type_id, name] <= 1:
            return name
        what, bracket, unit = name.partition(" [")
        return f"{what} ({metric_id}){bracket}{unit}"

    @cached_property
    def _blocks(self) -> Blocks | None:
        if not self._export.has(METRICS, *NEEDED):
            return None
        (found,) = scanned(self._export, [Rows(METRICS, (column("typeId"),), TIME)])
        return found

    @cached_property
    def _types(self) -> Mapping[int, int]:
        """The number of samples of each type."""
        if self._blocks is None:
            return {}
        types = [one for (one,) in self._blocks.owners if is_number(METRICS, "typeId", one)]
        return {one: self._blocks.of_rank([(one,)]).kept for one in sorted(types)}

    @cached_property
    def _names(self) -> Mapping[tuple[int, int], str]:
        """The name of each metric, by its type and number; repeated rows count once."""
        found: dict[tuple[int, int], str] = {}
        if self._export.has(_NAMES, "typeId", "metricId", "metricName"):
            for type_id, metric_id, name in self._export.rows(
                f"SELECT typeId, metricId, metricName FROM {_NAMES} ORDER BY {ROWID}"
            ):
                if type(type_id) is type(metric_id) is int and isinstance(name, str):
                    found.setdefault((type_id, metric_id), name)
        return found

    @cached_property
    def _same_names(self) -> Counter[tuple[int, str]]:
        """How many metrics of a type have a name."""
        return Counter((type_id, name) for (type_id, _), name in self._names.items())

    @cached_property
    def _owners(self) -> Mapping[int, RankPart]:
        """The first rank that ran on the GPU of a type, by type."""
        by_gpu: dict[int, RankPart] = {}
        for part in self._parts:
            for gpu in self._gpus_of(part):
                by_gpu.setdefault(gpu, part)
        return {one: by_gpu[gpu_of(one)] for one in self._types if gpu_of(one) in by_gpu}

    def _gpus_of(self, part: RankPart) -> Sequence[int]:
        """The numbers of the GPU of a rank; none if that is not known for certain."""
        if part.process is None:
            return []
        if self._export.has(_DEVICES, "gpuId", "cudaId", "pid"):
            return self._numbers(
                f"SELECT gpuId FROM {_DEVICES} WHERE cudaId = ? AND pid = ?",
                [part.device, pid_of(part.process)],
            )
        if not self._export.has(_GPUS, "id", "cuDevice"):
            return []
        # A number of a device is that of its process, which may see some of the GPUs only.
        if len({one.process for one in self._parts}) > 1:
            alone = self._numbers(f"SELECT DISTINCT id FROM {_GPUS}")
            return alone if len(alone) == 1 else []
        return self._numbers(f"SELECT id FROM {_GPUS} WHERE cuDevice = ?", [part.device])

    def _numbers(self, sql: str, values: Sequence[int | None] = ()) -> Sequence[int]:
        return [number for (number,) in self._export.rows(sql, values) if type(number) is int]
