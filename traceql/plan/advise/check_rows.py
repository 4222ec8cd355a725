"""The table of measured points and their predictions, one row each."""

import pyarrow as pa

from traceql.plan.advise.check import Check, Checked
from traceql.plan.advise.measured import MeasuredPoint
from traceql.result.result import Result

_SCHEMA = pa.schema(
    [
        ("layout", pa.string()),
        ("load", pa.string()),
        ("prompt_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("repeats", pa.int64()),
        ("measured_tpot_ns", pa.float64()),
        ("predicted_tpot_ns", pa.float64()),
        ("tpot_error_pct", pa.float64()),
        ("measured_ttft_ns", pa.float64()),
        ("predicted_ttft_ns", pa.float64()),
        ("ttft_error_pct", pa.float64()),
        ("measured_tokens_per_s", pa.float64()),
        ("left_out", pa.string()),
    ]
)
KEYS = (
    "layout", "load", "prompt_tokens", "output_tokens", "measured_tpot_ns", "predicted_tpot_ns",
    "tpot_error_pct", "left_out", "measured_ttft_ns", "predicted_ttft_ns", "ttft_error_pct",
)  # fmt: skip


def check_rows(check: Check) -> Result:
    """The points that were predicted, then those that were left out, with the reason.

    If any was predicted, points of other models have no row. Errors are predicted / measured - 1.
    """
    rows = [_measured(one.point) | _predicted(one) for one in check.checked]
    models = {one.point.model for one in check.checked or check.left_out}
    rows += [
        _measured(one.point) | {"left_out": one.reason}
        for one in check.left_out
        if one.point.model in models
    ]
    return Result(pa.Table.from_pylist(rows, _SCHEMA))


def _measured(point: MeasuredPoint) -> dict[str, object]:
    return {
        "layout": str(point.layout),
        "load": point.load,
        "prompt_tokens": point.requests.prompt_tokens,
        "output_tokens": point.requests.output_tokens,
        "repeats": point.repeats,
        "measured_tpot_ns": point.tpot_ns,
        "measured_ttft_ns": point.ttft_ns,
        "measured_tokens_per_s": point.tokens_per_s,
    }


def _predicted(one: Checked) -> dict[str, object]:
    ttft_error = one.ttft_error
    return {
        "predicted_tpot_ns": one.tpot_ns,
        "tpot_error_pct": 100 * one.tpot_error,
        "predicted_ttft_ns": one.ttft_ns,
        "ttft_error_pct": None if ttft_error is None else 100 * ttft_error,
    }
