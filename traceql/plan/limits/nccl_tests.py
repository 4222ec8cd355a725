"""Reads the JSON of nccl-tests -J, as of version 2.19 (src/util.cu).

The environment in the file is not kept: it may hold secrets.
"""

import re
from pathlib import PurePath
from typing import Annotated, Literal

from msgspec import Meta, Struct

from traceql.database.loading.inputs import SCHEMA_VERSION, Collective, PeaksDocument, Source
from traceql.plan.limits.collective_time import bus_factor
from traceql.util.files import Unusable

PROGRAM = "nccl-tests"
_Op = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"]
_OPS: dict[str, _Op] = {
    "all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all", "sendrecv": "send_recv",
}  # fmt: skip
_TEST = re.compile(r"(\w+?)_perf")  # a suffix may follow, such as _mpi
_LEAST_GBPS = 0.01  # bandwidths have six decimals; two smaller ones are not compared
_TOLERANCE = 0.01

_Count = Annotated[int, Meta(ge=0, lt=2**62)]
_Positive = Annotated[int, Meta(ge=1, lt=2**31)]


class _Times(Struct, frozen=True):
    """Microseconds, 1e9 bytes per second, and the number of wrong elements; "nan" if not a number.

    `cpu_time` stands for `time` with -C; `nwrong` is null where nothing was checked.
    """

    alg_bw: float | str
    bus_bw: float | str
    time: Annotated[float, Meta(ge=1e-3, le=1e12)] | str | None = None
    cpu_time: float | str | None = None
    nwrong: float | str | None = None


class _Row(Struct, frozen=True):
    """`size` is that of the whole buffer, also for alltoall: count x ranks x size of an element."""

    size: _Count
    type: str
    redop: str
    out_of_place: _Times | None = None
    in_place: _Times | None = None


class _Device(Struct, frozen=True):
    """The first device of a process."""

    group: int
    hostname: str
    device_info: str


class _Config(Struct, frozen=True):
    nthreads: _Positive
    ngpus: _Positive
    devices: Annotated[list[_Device], Meta(min_length=1)]


class Report(Struct, frozen=True):
    """A file of one test."""

    version: int
    args: Annotated[list[str | None], Meta(min_length=1)]
    config: _Config
    results: list[_Row]
    start_time: str | None = None
    nccl_version: int | None = None


def is_report(value: object) -> bool:
    return isinstance(value, dict) and {"args", "config", "results"} <= value.keys()


def peaks(report: Report, file: str) -> PeaksDocument:
    """The rows that are not empty; each is the out-of-place run, or else the in-place one.

    Raises Unusable if it is another test, has wrong results, or lacks the time of the GPUs.
    """
    op, config = _op(report), report.config
    # Each process of the first group has equally many threads, and these equally many GPUs.
    processes = sum(one.group == config.devices[0].group for one in config.devices)
    ranks = processes * config.nthreads * config.ngpus
    if ranks < 2:
        raise Unusable("it is of one GPU, which communicates with none; run the test with -g 2")
    rows = [
        _collective(number, row, op, ranks) for number, row in enumerate(report.results) if row.size
    ]
    if not rows:
        raise Unusable("it has no results of a size above 0; run the test again")
    code = report.nccl_version  # since NCCL 2.9, 22809 is 2.28.9
    version = code and f"NCCL {code // 10000}.{code // 100 % 100}.{code % 100}"
    source = Source(program=PROGRAM, file=file, version=version or None, started=report.start_time)
    return PeaksDocument(
        schema_version=SCHEMA_VERSION, measured=report.start_time or "", sources=[source],
        device_name=report.config.devices[0].device_info.strip(),
        memory=[], products=[], collectives=rows,
    )  # fmt: skip


def _op(report: Report) -> _Op:
    program = PurePath(report.args[0] or "").name
    test = _TEST.match(program)
    if test is None or test[1] not in _OPS:
        known = ", ".join(f"{name}_perf" for name in _OPS)
        raise Unusable(f"args[0] is '{program}', not one of {known}; import these tests alone")
    kinds = sorted({f"{row.type} {row.redop}" for row in report.results})
    if len(kinds) > 1:
        raise Unusable(
            f"it has results of several types or operations ({', '.join(kinds)}); "
            "run the test with one -d and one -o"
        )
    return _OPS[test[1]]


def _collective(number: int, row: _Row, op: _Op, ranks: int) -> Collective:
    side = "in_place" if row.out_of_place is None else "out_of_place"
    times = row.out_of_place or row.in_place
    place = f"results[{number}].{side}"
    if times is None:
        raise Unusable(f"results[{number}] has neither out_of_place nor in_place")
    if times.cpu_time is not None:
        raise Unusable(f"{place} has cpu_time, not time; run the test without -C")
    if not isinstance(times.time, float | int):
        raise Unusable(f"{place}.time is {times.time!r}, not a number of microseconds")
    if isinstance(times.nwrong, float | int) and times.nwrong > 0:
        raise Unusable(
            f"{place}.nwrong is {times.nwrong:.0f}: GPUs or links corrupt data, so its times are "
            "invalid; repair the machine and run the test again"
        )
    alg, bus, factor = times.alg_bw, times.bus_bw, bus_factor(op, ranks)
    ratio = factor
    if not isinstance(alg, str) and not isinstance(bus, str) and alg >= _LEAST_GBPS:
        ratio = bus / alg
    if abs(ratio - factor) > _TOLERANCE:
        raise Unusable(
            f"{place}: bus_bw / alg_bw is {ratio:.3f}, which {ranks} ranks (processes x "
            f"nthreads x ngpus) do not have: {factor:.3f}; was the file changed?"
        )
    return Collective(
        op=op, ranks=ranks, bytes=row.size, ns=times.time * 1e3, algorithm="nccl", source=PROGRAM
    )
