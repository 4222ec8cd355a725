"""Latencies of a pass: of each request, and their mean and percentiles.

TTFT, TPOT and ITL are defined as in vLLM's benchmark: TTFT = first token - sent;
TPOT = (last token - first token) / (output tokens - 1); ITL = the interval between two
consecutive messages with tokens; end-to-end latency = last token - sent. All are in ns.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from capture.drive import Answer, Pass

PERCENTILES = (50, 90, 99)


def metrics(
    profiled: Pass,
    unprofiled: Pass | None,
    *,
    until_ns: int | None = None,
    unprofiled_until_ns: int | None = None,
) -> Any:
    """The contents of metrics.json.

    Args:
        until_ns: end of the recorded window, Unix time in ns. Later tokens of the profiled pass
            were delayed by the writing of traces and do not count; their requests are not finished.
        unprofiled_until_ns: end of the same steps in the unprofiled pass, so that both passes
            cover the same work.
    """
    passes = {"profiled": pass_metrics(profiled, until_ns)}
    if unprofiled:
        passes["unprofiled"] = pass_metrics(unprofiled, unprofiled_until_ns)
    return {"schema_version": 1, "unit": "ns", "passes": passes}


def pass_metrics(measured: Pass, until_ns: int | None) -> dict[str, Any]:
    """The requests of one pass and a summary of them."""
    sent = [a for a in measured.answers if until_ns is None or a.sent_ns < until_ns]
    requests = [_request(answer, until_ns) for answer in sent]
    end_ns = measured.end_ns if until_ns is None else min(until_ns, measured.end_ns)
    return {
        "begin_unix_ns": measured.begin_ns,
        "end_unix_ns": end_ns,
        "requests": requests,
        "summary": _summary(requests, end_ns - measured.begin_ns),
    }


def _request(answer: Answer, until_ns: int | None) -> dict[str, Any]:
    times = [t for t in answer.token_ns if until_ns is None or t <= until_ns]
    finished = len(times) == len(answer.token_ns) and bool(times)
    first, last = (times[0], times[-1]) if times else (None, None)
    arrivals = sorted(set(times))
    return {
        "request_id": answer.request.request_id,
        "sent_unix_ns": answer.sent_ns,
        "first_token_unix_ns": first,
        "last_token_unix_ns": last,
        "finished": finished,
        "finish_reason": answer.finish_reason if finished else None,
        "prompt_tokens": None
        if isinstance(answer.request.prompt, str)
        else len(answer.request.prompt),
        "output_tokens": len(times),
        "ttft": first - answer.sent_ns if first else None,
        "tpot": round((last - first) / (len(times) - 1)) if first and last and times[1:] else None,
        "e2e": last - answer.sent_ns if last and finished else None,
        "itl": [later - earlier for earlier, later in pairwise(arrivals)],
    }


def _summary(requests: Sequence[dict[str, Any]], elapsed_ns: int) -> dict[str, Any]:
    tokens = sum(request["output_tokens"] for request in requests)
    values = {
        name: [r[name] for r in requests if r[name] is not None] for name in ("ttft", "tpot", "e2e")
    }
    values["itl"] = [interval for request in requests for interval in request["itl"]]
    return {
        "requests": len(requests),
        "finished": sum(request["finished"] for request in requests),
        "elapsed": elapsed_ns,
        "output_tokens": tokens,
        "output_tokens_per_s": tokens / (elapsed_ns / 1e9) if elapsed_ns > 0 else None,
        **{name: distribution(found) for name, found in values.items()},
    }


def distribution(values: Sequence[float]) -> dict[str, float] | None:
    """Mean and percentiles (linear interpolation, as in numpy), or None without values."""
    if not values:
        return None
    ordered = sorted(values)
    found = {"mean": math.fsum(ordered) / len(ordered)}
    for percent in PERCENTILES:
        place = (len(ordered) - 1) * percent / 100
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        found[f"p{percent}"] = ordered[low] + (ordered[high] - ordered[low]) * (place - low)
    return found
