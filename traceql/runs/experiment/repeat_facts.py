"""Facts of a repeat, as texts: of the machine, and the arguments of its server."""

from collections.abc import Mapping, Sequence
from typing import Any

from traceql.runs.experiment.documents import PointDocument
from traceql.runs.experiment.engines import model_name

_OWN_ARGUMENTS = ("--host", "--port")


def server_arguments(command: Sequence[str], point: PointDocument) -> str:
    """The arguments of vllm serve, without the paths and the port of that machine."""
    after = list(command[command.index("serve") + 1 :]) if "serve" in command else []
    words = [model_name(point.engine.model), *after[1:]]
    for name in _OWN_ARGUMENTS:
        if name in words:
            place = words.index(name)
            del words[place : place + 2]
    if "--profiler-config" in words[:-1]:
        words[words.index("--profiler-config") + 1] = "..."
    return " ".join(words)


def listed(gpus: Sequence[Mapping[str, Any]], name: str) -> str | None:
    return ", ".join(sorted({str(gpu[name]) for gpu in gpus if gpu.get(name)})) or None


def fact(facts: Any, name: str) -> str | None:
    """A text among facts of the machine; None if it is none."""
    found = facts.get(name) if isinstance(facts, dict) else None
    return found if isinstance(found, str) else None


def commit(git: Any) -> str | None:
    """The commit of a checkout, with -dirty if files differed from it; None if it is unknown."""
    found = fact(git, "commit")
    return f"{found}-dirty" if found and git.get("dirty") is True else found
