"""Reads the JSON of nvbandwidth -j, as of version 0.8 (json_output.cpp, testcases_ce.cpp)."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from traceql.database.loading.inputs import (
    SCHEMA_VERSION,
    Collective,
    HostCopy,
    Memory,
    PeaksDocument,
    Source,
)
from traceql.util.files import Unusable

PROGRAM = "nvbandwidth"
_PASSED = "Passed"
_ABSENT = "N/A"
_DEVICE = re.compile(r"\d+: (?P<name>.+?) \([0-9a-f]+:[0-9a-f]+:[0-9a-f]+\)")
_TEST = re.compile(
    r"(?P<what>device_to_device|host_to_device|device_to_host)(?P<both>_bidirectional)?_memcpy"
    r"(_(?P<by>read|write))?_(?P<engine>ce|sm)"
)
_LOCAL = "device_local_copy"
_ALGORITHMS: dict[str, Literal["copy", "copy_kernel"]] = {"ce": "copy", "sm": "copy_kernel"}
_HOST_OPS: dict[tuple[str, bool], Literal["to_gpu", "from_gpu", "to_gpu_both", "from_gpu_both"]] = {
    ("host_to_device", False): "to_gpu",
    ("device_to_host", False): "from_gpu",
    ("host_to_device", True): "to_gpu_both",
    ("device_to_host", True): "from_gpu_both",
}
_LARGEST_GBPS = 1e5
_BLOCKS = 3  # of a test of both directions: the one, the other, and their sum

_Rows = list[list[str]]


class _Test(Struct, frozen=True):
    name: str
    status: str
    bandwidth_matrix: _Rows = field(default_factory=list)


class _Body(Struct, frozen=True):
    devices: Annotated[list[str], Meta(min_length=1)] = field(name="GPU Device list")
    testcases: list[_Test]
    version: str | None = None
    error: str | None = None


class Report(Struct, frozen=True):
    """A file of any tests."""

    nvbandwidth: _Body


def is_report(value: object) -> bool:
    return isinstance(value, dict) and PROGRAM in value


def peaks(report: Report, file: str, *, buffer_mib: int) -> tuple[PeaksDocument, list[str]]:
    """Copies between GPUs, between them and the host, and within a GPU; and the tests left out.

    Args:
        buffer_mib: the --bufferSize: the file has bandwidths, but no sizes and times.

    Raises:
        Unusable: a matrix is not one of its test, or there is none.
    """
    body, size = report.nvbandwidth, buffer_mib * 2**20
    gpus, device_name = len(body.devices), _device_name(body.devices)
    copies: list[Collective] = []
    memory: list[Memory] = []
    host: list[HostCopy] = []
    left_out = []
    for number, test in enumerate(body.testcases):
        place, parts = f"testcases[{number}]", _TEST.fullmatch(test.name)
        if test.status != _PASSED:
            left_out.append(f"{test.name} ({test.status})")
        elif test.name == _LOCAL:  # a byte is read and written, and the file counts it once
            memory += [
                Memory(op="copy", bytes=2 * size, ns=size / gbps, gpu=gpu, source=PROGRAM)
                for _, gpu, gbps in _cells(place, test.bandwidth_matrix, 1, gpus)
            ]
        elif parts is None:
            left_out.append(test.name)
        elif parts["what"] == "device_to_device":
            copies += _between_gpus(place, test, parts, gpus, size)
        else:
            host += _with_host(place, test, parts, gpus, size)
    if not (copies or memory or host):
        reason = f": {body.error}" if body.error else ""
        raise Unusable(f"no copy in it was measured{reason}; run device_to_device_memcpy_read_ce")
    source = Source(program=PROGRAM, file=file, version=body.version)
    document = PeaksDocument(
        schema_version=SCHEMA_VERSION, device_name=device_name, measured="", sources=[source],
        memory=memory, products=[], collectives=copies, host_copies=host,
    )  # fmt: skip
    return document, left_out


def _device_name(devices: Sequence[str]) -> str:
    names = []
    for number, device in enumerate(devices):
        match = _DEVICE.match(device)
        if match is None:
            raise Unusable(f"'GPU Device list'[{number}] is not 'number: name (address): (host)'")
        names.append(match["name"])
    if len(set(names)) > 1:
        raise Unusable(
            f"it is of different GPUs ({', '.join(sorted(set(names)))}); measure one kind"
        )
    return names[0]


def _between_gpus(
    place: str, test: _Test, parts: re.Match[str], gpus: int, size: int
) -> Iterator[Collective]:
    """A row for each pair and direction; for both at once the mean of the two directions.

    The GPU of a row reads from those of the columns, or writes to them, according to nvbandwidth's
    code; the arrows in the file's `bandwidth_description` point the other way.
    """
    rows = test.bandwidth_matrix
    if parts["both"]:
        if len(rows) != _BLOCKS * gpus:
            raise Unusable(f"{place}.bandwidth_matrix has {len(rows)} rows, not {_BLOCKS} x {gpus}")
        rows = rows[2 * gpus :]
    for row, column, gbps in _cells(place, rows, gpus, gpus):
        reads = parts["by"] == "read"
        yield Collective(
            op="peer_copy_both" if parts["both"] else "peer_copy",
            ranks=2,
            bytes=size,
            ns=size / (gbps / 2 if parts["both"] else gbps),
            algorithm=_ALGORITHMS[parts["engine"]],
            from_gpu=column if reads else row,
            to_gpu=row if reads else column,
            source=PROGRAM,
        )


def _with_host(
    place: str, test: _Test, parts: re.Match[str], gpus: int, size: int
) -> Iterator[HostCopy]:
    """A row for each GPU; with traffic the other way, the measured direction alone."""
    op = _HOST_OPS[parts["what"], parts["both"] is not None]
    for _, gpu, gbps in _cells(place, test.bandwidth_matrix, 1, gpus):
        how, ns = _ALGORITHMS[parts["engine"]], size / gbps
        yield HostCopy(op=op, gpu=gpu, bytes=size, ns=ns, algorithm=how, source=PROGRAM)


def _cells(place: str, rows: _Rows, height: int, width: int) -> Iterator[tuple[int, int, float]]:
    """Row, column and GB/s of a matrix of this size; pairs without a connection are left out."""
    if len(rows) != height or any(len(row) != width for row in rows):
        raise Unusable(f"{place}.bandwidth_matrix does not have {height} x {width} numbers")
    for row, texts in enumerate(rows):
        for column, text in enumerate(texts):
            if text == _ABSENT:
                continue
            try:
                gbps = float(text) if text.isascii() else math.nan
            except ValueError:
                gbps = math.nan
            if not 0 < gbps < _LARGEST_GBPS:
                at = f"{place}.bandwidth_matrix[{row}][{column}]"
                raise Unusable(f"{at} is '{text[:40]}', not a bandwidth in GB/s")
            yield row, column, gbps
