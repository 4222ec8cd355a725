"""Profiles as Nsight Compute prints them, in words.

`raw(launch("gemm", dram__bytes_read__sum="4,096"), units={...})` is the text of a raw page. In the
names of metrics, `__sum` stands for `.sum`.
"""

import csv
import io
from collections.abc import Mapping, Sequence

RANGES = "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
_ABOUT = (
    *("ID", "Process ID", "Process Name", "Host Name", RANGES),
    *("Kernel Name", "Context", "Stream", "Block Size", "Grid Size", "Device", "CC"),
)
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
TENSOR = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
DURATION = "gpu__time_duration.sum"
UNITS = {READ: "byte", WRITTEN: "byte", DURATION: "ns", TENSOR: ""}

Launch = dict[str, str]


def launch(
    name: str = "gemm",
    metrics: Mapping[str, str] | None = None,
    *,
    grid: Sequence[int] = (1, 1, 1),
    block: Sequence[int] = (32, 1, 1),
    ranges: Sequence[str] = (),
    process: int = 100,
) -> Launch:
    """A launch with the texts of its metrics."""
    cell = "  ".join(f'"<default domain>:{one}:none:none:none:none:none:none"' for one in ranges)
    about = {
        "Process ID": str(process),
        "Process Name": "python3",
        "Host Name": "127.0.0.1",
        RANGES: f"{process}  {cell} " if cell else "",
        "Kernel Name": name,
        "Context": "1",
        "Stream": "7",
        "Block Size": str(tuple(block)),
        "Grid Size": str(tuple(grid)),
        "Device": "0",
        "CC": "9.0",
    }
    return about | dict(metrics or {READ: "4,096", WRITTEN: "0", DURATION: "2,048"})


def raw(*launches: Launch, units: Mapping[str, str] = UNITS) -> str:
    """A raw page: a row a launch, below a row of units."""
    metrics = list(dict.fromkeys(name for one in launches for name in one if name not in _ABOUT))
    columns = [*_ABOUT, *metrics]
    rows: list[Launch] = [dict.fromkeys(_ABOUT, "") | dict(units)]
    rows += [one | {"ID": str(number)} for number, one in enumerate(launches)]
    return _csv(columns, [[row.get(column, "") for column in columns] for row in rows])


def _csv(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()
