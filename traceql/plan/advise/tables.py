"""The tables of an advice, and predictions beside measured points."""

from typing import Any

import pyarrow as pa

from traceql.plan.advise.advice import Advice
from traceql.plan.advise.check import Check, MeasuredPoint
from traceql.plan.advise.ranking import Candidate
from traceql.result import Result

_LAYOUTS = pa.schema({
    "layout": "string", "tp": "int64", "pp": "int64", "dp": "int64", "ep": "bool",
    "gpus": "int64", "fits": "bool", "weight_bytes": "int64", "kv_tokens": "int64",
    "most_requests": "int64", "requests": "int64", "step_ns": "float64", "ttft_ns": "float64",
    "tpot_ns": "float64", "tpot_low_ns": "float64", "tpot_high_ns": "float64",
    "tokens_per_s": "float64", "tokens_per_s_per_gpu": "float64", "tokens_per_s_low": "float64",
    "tokens_per_s_high": "float64", "uncertainty": "string", "basis": "string",
    "measured_load": "string", "measured_tpot_ns": "float64", "measured_tokens_per_s": "float64",
    "is_recommended": "bool", "why_not": "string",
})  # fmt: skip
# The columns of a terminal, the most important first.
LAYOUT_KEYS = (
    "layout", "why_not", "tokens_per_s", "tpot_ns", "uncertainty", "requests", "measured_load",
    "measured_tpot_ns", "measured_tokens_per_s", "step_ns",
    "ttft_ns", "weight_bytes", "kv_tokens", "gpus",
)  # fmt: skip
_CHECK = pa.schema({
    "layout": "string", "load": "string", "prompt_tokens": "int64", "output_tokens": "int64",
    "repeats": "int64", "measured_tpot_ns": "float64", "predicted_tpot_ns": "float64",
    "tpot_error_pct": "float64", "measured_ttft_ns": "float64", "predicted_ttft_ns": "float64",
    "ttft_error_pct": "float64", "measured_tokens_per_s": "float64", "left_out": "string",
})  # fmt: skip
CHECK_KEYS = (
    "layout", "load", "prompt_tokens", "output_tokens", "measured_tpot_ns", "predicted_tpot_ns",
    "tpot_error_pct", "left_out", "measured_ttft_ns", "predicted_ttft_ns", "ttft_error_pct",
)  # fmt: skip


def layout_rows(advice: Advice) -> Result:
    """The layouts, the best first.

    weight_bytes is of the fullest GPU, kv_tokens of a replica, and requests of all replicas
    together; low and high are the ends of the uncertainty. The measured point has the same prompt
    and output tokens, and the nearest number of requests.
    """
    rows = [_layout_row(advice, candidate) for candidate in advice.candidates]
    return Result(pa.Table.from_pylist(rows, _LAYOUTS))


def without_details(layouts: Result) -> Result:
    """The columns for a terminal."""
    table = layouts.arrow()
    return Result(table.select([name for name in table.column_names if name in LAYOUT_KEYS]))


def _layout_row(advice: Advice, candidate: Candidate) -> dict[str, object]:
    layout, memory, found = candidate.layout, candidate.memory, candidate.prediction
    row: dict[str, object] = vars(layout) | {
        "layout": str(layout),
        "gpus": layout.gpus,
        "fits": memory.obstacle is None,
        "weight_bytes": round(memory.weight_bytes),
        "kv_tokens": memory.kv_tokens,
        "most_requests": memory.requests,
        "is_recommended": candidate is advice.recommended,
        "why_not": candidate.why_not,
    }
    if found is None:
        return row
    low, high = found.spread.low, found.spread.high
    names = ("requests", "step_ns", "ttft_ns", "tpot_ns", "tokens_per_s", "tokens_per_s_per_gpu")
    row |= {name: getattr(found, name) for name in names} | {
        "tpot_low_ns": found.tpot_ns * low,
        "tpot_high_ns": found.tpot_ns * high,
        "tokens_per_s_low": found.tokens_per_s / high,
        "tokens_per_s_high": found.tokens_per_s / low,
        "uncertainty": found.spread.text,
        "basis": "recording" if advice.is_recorded else "floor with default efficiencies",
    }
    check = advice.check
    if check and (point := check.nearest_point(layout, advice.requests, found.requests)):
        row |= {
            "measured_load": point.load,
            "measured_tpot_ns": point.tpot_ns,
            "measured_tokens_per_s": point.tokens_per_s,
        }
    return row


def check_rows(check: Check) -> Result:
    """The points that were predicted, then those that were skipped, with the reason.

    If any was predicted, points of other models have no row. Errors are predicted / measured - 1.
    """
    predicted = [
        (one.point, {
            "predicted_tpot_ns": one.tpot_ns,
            "tpot_error_pct": 100 * one.tpot_error,
            "predicted_ttft_ns": one.ttft_ns,
            "ttft_error_pct": None if one.ttft_error is None else 100 * one.ttft_error,
        })
        for one in check.checked
    ]  # fmt: skip
    skipped = [(point, {"left_out": reason}) for point, reason in check.skipped]
    every: list[tuple[MeasuredPoint, dict[str, Any]]] = [*predicted, *skipped]
    models = {point.model for point, _ in predicted or skipped}
    rows = [
        vars(point.requests) | more | {
            "layout": str(point.layout),
            "load": point.load,
            "repeats": point.repeats,
            "measured_tpot_ns": point.tpot_ns,
            "measured_ttft_ns": point.ttft_ns,
            "measured_tokens_per_s": point.tokens_per_s,
        }
        for point, more in every
        if point.model in models
    ]  # fmt: skip
    return Result(pa.Table.from_pylist(rows, _CHECK))
