"""What a file of Nsight Compute holds, in whichever form it was written."""

from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

# One row per profiled launch, in the order of the file. Every column but `index` may be NULL.
LAUNCH = pa.schema(
    [
        ("index", pa.int64()),  # 0, 1, 2, ... in this order
        ("number", pa.int64()),  # ID in the file
        ("process_id", pa.int64()),
        ("device", pa.int64()),
        ("device_name", pa.string()),
        ("compute_capability", pa.string()),
        ("context", pa.int64()),
        ("stream", pa.int64()),
        ("name", pa.string()),
        ("kind", pa.string()),  # kernel, graph or range
        ("grid", pa.list_(pa.int32())),
        ("block", pa.list_(pa.int32())),
        ("ranges", pa.list_(pa.string())),  # NVTX ranges, the outermost one first
    ]
)
# One row per launch and metric with a value. Sizes, times and rates are in base units.
METRIC = pa.schema(
    [
        ("launch", pa.int64()),  # LAUNCH.index
        ("section", pa.string()),  # NULL unless the details page names it
        ("metric", pa.string()),
        ("unit", pa.string()),  # base unit; NULL if it has none
        ("value", pa.float64()),  # NULL if it is no number
        ("text", pa.string()),  # as in the file, if it is no number; else NULL
        ("file_unit", pa.string()),  # unit in the file; NULL if it has none
        ("step", pa.float64()),  # place value of the last digit in the file, in `unit`
    ]
)


@dataclass(frozen=True)
class Remark:
    """A statement about a file for the ledger; see table profile_check."""

    check_name: str
    value: int | None
    total: int | None
    ok: bool | None
    note: str


@dataclass(frozen=True)
class Profile:
    """A file of Nsight Compute.

    Attributes:
        page: raw or details (pages of CSV), or report.
        launches: rows of LAUNCH.
        metrics: rows of METRIC.
    """

    path: Path
    sha256: str
    size_bytes: int
    page: str
    launches: pa.Table
    metrics: pa.Table
    remarks: list[Remark] = field(default_factory=list)
