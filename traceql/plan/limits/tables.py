"""The tables of a peaks.json, by name."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from traceql.analysis.peaks.rows import SHIPPED, PeakRow, peak_rows
from traceql.database.loading.peaks import PeaksDocument, Product
from traceql.plan.limits.series import Series, collective_series, copies, host_copies
from traceql.util.files import text


def data_sheet(device_name: str) -> Mapping[str, PeakRow]:
    """The row of each type of numbers; empty for a GPU that is not listed."""
    rows = peak_rows(SHIPPED, text(SHIPPED))
    return {row.dtype: row for row in rows if re.search(row.device, device_name)}


Rows = list[dict[str, Any]]

_BYTES = {"bf16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}  # of a number
_FEW_TOKENS = 256  # rows up to which reading the weights may take longer than the arithmetic


def matmul(peaks: PeaksDocument) -> Rows:
    """A row for each shape and type: in bursts after pauses, and without a pause (sustained).

    TFLOP/s of the fastest launch, where it is known; with few rows, also the bytes of weights that
    were read per second, which limits them.
    """
    stated = data_sheet(peaks.device_name)
    return [
        _shape(list(same), stated.get(key[0]))
        for key, same in groupby(sorted(peaks.products, key=_product_key), _product_key)
    ]


def _product_key(one: Product) -> tuple[str, str, int, int, int, int]:
    """Those of no model by their work, those of a model by the number of tokens."""
    work = 0 if one.role else one.m * one.k * one.n
    return one.dtype, one.role or "", work, one.k, one.n, one.m


def _shape(rows: Sequence[Product], stated: PeakRow | None) -> dict[str, Any]:
    first = rows[0]
    ns = {one.load or "sustained": one.fastest_ns or one.ns for one in rows}
    tflops = {load: 2e-3 * first.m * first.k * first.n / each for load, each in ns.items()}
    clocks = {one.load or "sustained": one.sm_clock_mhz for one in rows}
    best = max(tflops.values())
    weights = first.k * first.n * _BYTES[first.dtype]
    return {
        "dtype": first.dtype,
        "role": first.role,
        "m": first.m,
        "k": first.k,
        "n": first.n,
        "burst_tflops": tflops.get("burst"),
        "sustained_tflops": tflops.get("sustained"),
        "data_sheet_pct": 100 * best / stated.tflops if stated and stated.tflops else None,
        "weights_gbps": weights / min(ns.values()) if first.m <= _FEW_TOKENS else None,
        "burst_ns": ns.get("burst"),
        "sustained_ns": ns.get("sustained"),
        "sustained_clock_mhz": clocks.get("sustained"),
    }


def memory(peaks: PeaksDocument) -> Rows:
    """A row for each measurement of the GPU's memory; bytes are read and written ones."""
    stated = next((row.hbm_gbps for row in data_sheet(peaks.device_name).values()), None)
    rows = []
    for one in sorted(peaks.memory, key=lambda one: (one.op, one.bytes)):
        ns = one.fastest_ns or one.ns
        gbps = one.bytes / ns
        rows.append(
            {
                "op": one.op,
                "gpu": one.gpu,
                "source": one.source,
                "bytes": one.bytes,
                "ns": ns,
                "bandwidth_gbps": gbps,
                "data_sheet_pct": 100 * gbps / stated if stated else None,
                "sm_clock_mhz": one.sm_clock_mhz,
            }
        )
    return rows


def collectives(peaks: PeaksDocument) -> Rows:
    """A row for each operation, number of ranks, algorithm and size; bandwidths by `ns`."""
    kernels = {_way(one): one.ns for one in collective_series(peaks, "kernel")}
    return [
        {
            **_named(one),
            "bytes": size,
            "ns": ns,
            "kernel_ns": kernels.get(_way(one), {}).get(size),
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
            **_named(one),
            "timing": one.timing,
            "sizes": len(one.ns),
            "from_bytes": min(one.ns),
            "to_bytes": max(one.ns),
            "alpha_ns": one.fit.alpha_ns,
            "bandwidth_gbps": one.fit.bandwidth_gbps,
            "median_error_pct": 100 * one.fit.median_error,
            "largest_error_pct": 100 * one.fit.largest_error,
            "worst_bytes": max(zip(one.fit.errors, one.ns, strict=True))[1],
        }
        for one in sorted(series, key=lambda one: (_way(one), one.timing != "launch"))
        if one.fit
    ]


def _way(one: Series) -> tuple[str, int, str, str]:
    return one.op, one.ranks, one.algorithm, one.source or ""


def _named(one: Series) -> dict[str, Any]:
    return {"op": one.op, "ranks": one.ranks, "algorithm": one.algorithm, "source": one.source}


TABLES: Mapping[str, Callable[[PeaksDocument], list[dict[str, Any]]]] = {
    "matmul": matmul,
    "memory": memory,
    "copies": copies,
    "host": host_copies,
    "collectives": collectives,
    "fit": fits,
}
