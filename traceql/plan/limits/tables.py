"""The tables of a peaks.json, by name, and bandwidths between GPUs as matrices."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import Any

from traceql.analysis.peaks.rows import SHIPPED, PeakRow, peak_rows
from traceql.database.loading.inputs import Collective, HostCopy, Memory, PeaksDocument, Product
from traceql.plan.limits.collective_time import COPIES, Series, collective_series
from traceql.util.files import read_text

Rows = list[dict[str, Any]]

_BYTES = {"bf16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}  # of a number
_FEW_TOKENS = 256  # rows up to which reading the weights may take longer than the arithmetic


def data_sheet(device_name: str) -> Mapping[str, PeakRow]:
    """The row of each number type; empty for a GPU that is not listed."""
    rows = peak_rows(SHIPPED, read_text(SHIPPED))
    return {row.dtype: row for row in rows if re.search(row.device, device_name)}


def matmul(peaks: PeaksDocument) -> Rows:
    """A row for each shape and type: in bursts after pauses, and without a pause (sustained).

    TFLOP/s of the fastest launch, where it is known; with few rows, also the weight bytes read per
    second, which limit them. Products of a model are ordered by tokens, others by FLOPs.
    """

    def key(one: Product) -> tuple[str, str, int, int, int, int]:
        work = 0 if one.role else one.m * one.k * one.n
        return one.dtype, one.role or "", work, one.k, one.n, one.m

    stated = data_sheet(peaks.device_name)
    return [
        _product_row(list(same), stated.get(dtype))
        for (dtype, *_), same in groupby(sorted(peaks.products, key=key), key)
    ]


def _product_row(rows: Sequence[Product], stated: PeakRow | None) -> dict[str, Any]:
    first = rows[0]
    ns = {one.load or "sustained": one.fastest_ns or one.ns for one in rows}
    tflops = {load: 2e-3 * first.m * first.k * first.n / each for load, each in ns.items()}
    clocks = {one.load or "sustained": one.sm_clock_mhz for one in rows}
    weights = first.k * first.n * _BYTES[first.dtype]
    return {
        **{name: getattr(first, name) for name in ("dtype", "role", "m", "k", "n")},
        "burst_tflops": tflops.get("burst"),
        "sustained_tflops": tflops.get("sustained"),
        "data_sheet_pct": _percent(max(tflops.values()), stated.tflops if stated else None),
        "weights_gbps": weights / min(ns.values()) if first.m <= _FEW_TOKENS else None,
        "burst_ns": ns.get("burst"),
        "sustained_ns": ns.get("sustained"),
        "sustained_clock_mhz": clocks.get("sustained"),
    }


def memory(peaks: PeaksDocument) -> Rows:
    """A row for each measurement of the GPU's memory; bytes are read and written ones."""
    stated = next((row.hbm_gbps for row in data_sheet(peaks.device_name).values()), None)
    found = []
    for one in sorted(peaks.memory, key=lambda one: (one.op, one.bytes)):
        row = _row(one, "op", "gpu", "source", ns=one.fastest_ns or one.ns)
        stated_pct = _percent(row["bandwidth_gbps"], stated)
        found.append(row | {"data_sheet_pct": stated_pct, "sm_clock_mhz": one.sm_clock_mhz})
    return found


def _row(
    one: Memory | Collective | HostCopy, *names: str, ns: float | None = None
) -> dict[str, Any]:
    """The named values of a measurement, and its bandwidth."""
    ns = ns or one.ns
    rate = {"bytes": one.bytes, "ns": ns, "bandwidth_gbps": one.bytes / ns}
    return {name: getattr(one, name) for name in names} | rate


def _percent(value: float, whole: float | None) -> float | None:
    return 100 * value / whole if whole else None


def copies(peaks: PeaksDocument) -> Rows:
    """A row for each copy from one GPU to another; bytes and GB/s are of one direction."""
    first_two = {"from_gpu": 0, "to_gpu": 1}  # measured by version 1 of the file, without names
    return [
        _row(one, "op", "algorithm", "source", "from_gpu", "to_gpu")
        | (first_two if None in (one.from_gpu, one.to_gpu) else {})
        for one in peaks.collectives
        if one.op in COPIES
    ]


def copy_matrices(peaks: PeaksDocument) -> dict[str, Rows]:
    """By title, GB/s from each GPU to each other, the best of all sizes."""
    best: dict[str, dict[tuple[int, int], float]] = {}
    for row in copies(peaks):
        is_both = row["op"] == "peer_copy_both"
        direction = "each of both directions at once" if is_both else "one direction"
        by = "by a kernel" if row["algorithm"] == "copy_kernel" else "by copy engines"
        measured = f", {row['source']}" if row["source"] else ""
        matrix = best.setdefault(f"{direction}, {by}{measured}", {})
        pair = row["from_gpu"], row["to_gpu"]
        for one in (pair, pair[::-1]) if is_both else (pair,):
            matrix[one] = max(matrix.get(one, 0.0), row["bandwidth_gbps"])
    found = {}
    for title, gbps in best.items():
        sources, targets = (sorted(set(each)) for each in zip(*gbps, strict=True))
        found[title] = [
            {"from": f"GPU {source}"}
            | {f"to_gpu_{target}_gbps": gbps.get((source, target)) for target in targets}
            for source in sources
        ]
    return found


def host_copies(peaks: PeaksDocument) -> Rows:
    """A row for each copy between the host and a GPU; bytes and GB/s are of one direction."""
    return [_row(one, "op", "gpu", "algorithm", "source") for one in peaks.host_copies]


def collectives(peaks: PeaksDocument) -> Rows:
    """A row for each operation, number of ranks, algorithm and size; bandwidths by `ns`."""
    kernels = {one.key: one.ns for one in collective_series(peaks, "kernel")}
    return [
        {
            **_identity(one),
            "bytes": size,
            "ns": ns,
            "kernel_ns": kernels.get(one.key, {}).get(size),
            "algbw_gbps": size / ns,
            "busbw_gbps": size / ns * one.factor,
        }
        for one in collective_series(peaks, "launch")
        for size, ns in one.ns.items()
    ]


def fits(peaks: PeaksDocument) -> Rows:
    """A row for each operation, number of ranks, algorithm and timing: alpha, beta, and errors."""
    series = [*collective_series(peaks, "launch"), *collective_series(peaks, "kernel")]
    return [
        {
            **_identity(one),
            "timing": one.timing,
            "sizes": len(one.ns),
            "from_bytes": min(one.ns),
            "to_bytes": max(one.ns),
            "alpha_ns": one.fit.alpha_ns,
            "bandwidth_gbps": one.fit.bandwidth_gbps,
            "median_error_pct": 100 * median(one.fit.errors),
            "largest_error_pct": 100 * max(one.fit.errors),
            "worst_bytes": max(zip(one.fit.errors, one.ns, strict=True))[1],
        }
        for one in sorted(series, key=lambda one: (one.key, one.timing != "launch"))
        if one.fit
    ]


def _identity(one: Series) -> dict[str, Any]:
    return {"op": one.op, "ranks": one.ranks, "algorithm": one.algorithm, "source": one.source}


TABLES: Mapping[str, Callable[[PeaksDocument], Rows]] = {
    "matmul": matmul, "memory": memory, "copies": copies, "host": host_copies,
    "collectives": collectives, "fit": fits,
}  # fmt: skip
