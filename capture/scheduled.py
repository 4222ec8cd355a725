"""What vLLM's scheduler gave an iteration: the tokens of each request, and those before them."""

from typing import Any


def scheduled_tokens(output: Any) -> dict[str, int]:
    """The number of tokens that each request processes in the iteration of a SchedulerOutput."""
    return dict(output.num_scheduled_tokens)


def computed_tokens(output: Any) -> dict[str, int]:
    """The number of tokens of each scheduled request whose keys and values exist before it.

    Tokens that the prefix cache had count too. A request of which this vLLM does not say it is
    left out.
    """
    before = {
        getattr(new, "req_id", None): getattr(new, "num_computed_tokens", None)
        for new in getattr(output, "scheduled_new_reqs", ())
    }
    cached = getattr(output, "scheduled_cached_reqs", None)
    names, counts = getattr(cached, "req_ids", ()), getattr(cached, "num_computed_tokens", ())
    if len(names) == len(counts):
        before |= dict(zip(names, counts, strict=True))
    known = ((name, before.get(name)) for name in output.num_scheduled_tokens)
    return {name: count for name, count in known if isinstance(count, int)}
