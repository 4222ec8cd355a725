"""What users see of requests that are sent at once, and after which none follow."""

from dataclasses import dataclass
from statistics import median

from traceql.plan.advise.layouts import Layout
from traceql.plan.advise.prediction import Predictor


@dataclass(frozen=True)
class BatchTimes:
    """Medians over the requests of a batch, ns."""

    ttft_ns: float
    tpot_ns: float


def batch_times(
    predictor: Predictor, layout: Layout, per_replica: int, *, step_tokens: int
) -> BatchTimes | None:
    """The times of a batch on each replica; None if the evidence does not have them.

    Prompts are processed in the order of their requests, as many in a step as fit. A request has
    its first token after the step of its own prompt; the steps of later prompts are in its time
    between tokens.

    Args:
        step_tokens: tokens of prompts that a step can process.
    """
    found = predictor.predicted(layout, per_replica)
    if found is None:
        return None
    together = min(per_replica, max(1, step_tokens // predictor.requests.prompt_tokens))
    prompts, _ = predictor.prompts(layout, together)
    # As numbers of full steps; the last one may have fewer prompts.
    places = range(1, per_replica + 1)
    done = median(min(-(-place // together) * together, per_replica) for place in places) / together
    later = per_replica / together - done
    answered = predictor.requests.output_tokens - 1
    return BatchTimes(
        ttft_ns=prompts.ns + (done - 1) * prompts.slowest_stage_ns,
        tpot_ns=found.step_ns + later * prompts.slowest_stage_ns / answered,
    )
