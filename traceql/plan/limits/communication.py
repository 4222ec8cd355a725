"""Tables of collectives: each size, and the fits."""

from typing import Any

from traceql.database.loading.peaks_document import PeaksDocument
from traceql.plan.limits.series import Series, collective_series

Rows = list[dict[str, Any]]


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
