"""The table of layouts, one row each."""

import pyarrow as pa

from traceql.plan.advise.advice import Advice
from traceql.plan.advise.prediction import Prediction
from traceql.plan.advise.ranking import Candidate
from traceql.result import Result

_SCHEMA = pa.schema(
    [
        ("layout", pa.string()),
        ("tp", pa.int64()),
        ("pp", pa.int64()),
        ("dp", pa.int64()),
        ("ep", pa.bool_()),
        ("gpus", pa.int64()),
        ("fits", pa.bool_()),
        ("weight_bytes", pa.int64()),
        ("kv_tokens", pa.int64()),
        ("most_requests", pa.int64()),
        ("requests", pa.int64()),
        ("step_ns", pa.float64()),
        ("ttft_ns", pa.float64()),
        ("tpot_ns", pa.float64()),
        ("tpot_low_ns", pa.float64()),
        ("tpot_high_ns", pa.float64()),
        ("tokens_per_s", pa.float64()),
        ("tokens_per_s_per_gpu", pa.float64()),
        ("tokens_per_s_low", pa.float64()),
        ("tokens_per_s_high", pa.float64()),
        ("uncertainty", pa.string()),
        ("basis", pa.string()),
        ("measured_load", pa.string()),
        ("measured_tpot_ns", pa.float64()),
        ("measured_tokens_per_s", pa.float64()),
        ("is_recommended", pa.bool_()),
        ("why_not", pa.string()),
    ]
)
# What a table for people shows, the most important first where the terminal is narrow.
KEYS = (
    "layout", "why_not", "tokens_per_s", "tpot_ns", "uncertainty", "requests", "measured_load",
    "measured_tpot_ns", "measured_tokens_per_s", "step_ns",
    "ttft_ns", "weight_bytes", "kv_tokens", "gpus",
)  # fmt: skip


def layout_rows(advice: Advice) -> Result:
    """The layouts, the best first.

    weight_bytes is of the fullest GPU, kv_tokens of a replica, and requests of all replicas
    together; the lows and highs are those of the uncertainty. What was measured is of the same
    prompt and output tokens, and of the most nearly equal number of requests.
    """
    rows = [_row(advice, candidate) for candidate in advice.candidates]
    return Result(pa.Table.from_pylist(rows, _SCHEMA))


def shown(rows: Result) -> Result:
    """The columns of a table for people."""
    table = rows.arrow()
    return Result(table.select([name for name in table.column_names if name in KEYS]))


def _row(advice: Advice, candidate: Candidate) -> dict[str, object]:
    layout, held, found = candidate.layout, candidate.memory, candidate.prediction
    row: dict[str, object] = {
        "layout": str(layout),
        "tp": layout.tp,
        "pp": layout.pp,
        "dp": layout.dp,
        "ep": layout.ep,
        "gpus": layout.gpus,
        "fits": held.obstacle is None,
        "weight_bytes": round(held.weight_bytes),
        "kv_tokens": held.kv_tokens,
        "most_requests": held.requests,
        "is_recommended": candidate is advice.recommended,
        "why_not": candidate.why_not,
    }
    if found is None:
        return row
    return (
        row
        | _measured(advice, found)
        | {
            "requests": found.requests,
            "step_ns": found.step_ns,
            "ttft_ns": found.ttft_ns,
            "tpot_ns": found.tpot_ns,
            "tpot_low_ns": found.tpot_ns * found.spread.low,
            "tpot_high_ns": found.tpot_ns * found.spread.high,
            "tokens_per_s": found.tokens_per_s,
            "tokens_per_s_per_gpu": found.tokens_per_s_per_gpu,
            "tokens_per_s_low": found.tokens_per_s / found.spread.high,
            "tokens_per_s_high": found.tokens_per_s / found.spread.low,
            "uncertainty": found.spread.text,
            "basis": "recording" if advice.is_recorded else "floor with default efficiencies",
        }
    )


def _measured(advice: Advice, found: Prediction) -> dict[str, object]:
    if advice.check is None:
        return {}
    point = advice.check.beside(found.layout, advice.requests, found.requests)
    if point is None:
        return {}
    return {
        "measured_load": point.load,
        "measured_tpot_ns": point.tpot_ns,
        "measured_tokens_per_s": point.tokens_per_s,
    }
