"""Profiles as Nsight Compute prints them: `raw(launch("gemm", {READ: "4,096"}))` is a raw page."""

import csv
import io
from collections.abc import Mapping, Sequence

_ABOUT = {
    "ID": "",
    "Process ID": "100",
    "Process Name": "python3",
    "Host Name": "127.0.0.1",
    "thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg": "",
    "Kernel Name": "",
    "Context": "1",
    "Stream": "7",
    "Block Size": "",
    "Grid Size": "",
    "Device": "0",
    "CC": "9.0",
}
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
TENSOR = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
DURATION = "gpu__time_duration.sum"
UNITS = {READ: "byte", WRITTEN: "byte", DURATION: "ns"}
_METRICS = {READ: "4,096", WRITTEN: "0", DURATION: "2,048"}

Launch = dict[str, str]


def launch(
    name: str,
    metrics: Mapping[str, str] = _METRICS,
    *,
    grid: Sequence[int] = (1, 1, 1),
    block: Sequence[int] = (32, 1, 1),
) -> Launch:
    """A launch with the texts of its metrics."""
    sizes = {"Block Size": str(tuple(block)), "Grid Size": str(tuple(grid))}
    return _ABOUT | {"Kernel Name": name} | sizes | dict(metrics)


def raw(*launches: Launch) -> str:
    """A raw page: a row a launch, below a row of units."""
    columns = dict.fromkeys(name for one in launches for name in one)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, "", quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writeheader()
    writer.writerow({name: unit for name, unit in UNITS.items() if name in columns})
    writer.writerows(one | {"ID": str(number)} for number, one in enumerate(launches))
    return text.getvalue()
