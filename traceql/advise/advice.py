"""Answers which layout of a model to run for a goal."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from traceql.advise.default_times import DefaultTimes
from traceql.advise.goal import Goal
from traceql.advise.layouts import Layout, layouts
from traceql.advise.machine import Machine, machine_named, with_points
from traceql.advise.memory import Memory, memory
from traceql.advise.models import Model, model_named
from traceql.advise.prediction import Prediction, Predictor, Requests
from traceql.advise.ranking import (
    Candidate,
    best,
    between,
    most_requests,
    numbers_of_requests,
    overlapping,
    ranked,
)
from traceql.advise.recorded_times import RecordedTimes, Recording, recording
from traceql.errors import TraceqlError
from traceql.trace import Trace

MOST_ERROR_PCT = 25.0  # of the method on the recorded steps, up to which its ranking is told


@dataclass(frozen=True)
class Question:
    """What is asked.

    Attributes:
        model: a name or the path of a config.json; that of the recording if None.
        gpu: a name; that of the recording if None.
        gpus: most GPUs that may be used.
        max_model_len: most tokens of a request; as many as the requests have if None.
        utilization: share of the memory that vLLM may use.
        run: a database to predict from; None for data sheets alone.
        peaks: files of peaks, as for `traceql load --peaks`.
    """

    goal: Goal
    model: str | None = None
    gpu: str | None = None
    gpus: int = 8
    requests: Requests = field(default_factory=lambda: Requests(1024, 256))
    max_model_len: int | None = None
    utilization: float = 0.9
    run: Path | None = None
    peaks: Sequence[Path] = ()


@dataclass(frozen=True)
class Advice:
    """The answer.

    Attributes:
        candidates: all layouts, the best first.
        as_good: layouts that cannot be told from the first one.
        recommended: None if none can be.
        error_pct: of the method on the recorded steps; None if they could not be checked.
    """

    goal: Goal
    model: Model
    machine: Machine
    candidates: Sequence[Candidate]
    as_good: Sequence[Layout]
    recommended: Candidate | None
    is_recorded: bool
    error_pct: float | None


def advise(question: Question) -> Advice:
    """The layouts that the question allows, ranked by its goal.

    Raises:
        UnknownModel: the model is not known, or is not that of the recording.
        UnknownGpu: the GPU is not known.
        TraceqlError: the requests are longer than `max_model_len`, or the recording is no use.
    """
    longest = question.max_model_len or question.requests.tokens
    if question.requests.tokens > longest:
        raise TraceqlError(
            f"requests of {question.requests.tokens:,} tokens are longer than --max-model-len "
            f"{longest:,}; give a longer one, or shorter requests"
        )
    if question.run is None:
        return _advice(question, None)
    with Trace(question.run) as trace:
        return _advice(question, recording(trace))


def _advice(question: Question, recorded: Recording | None) -> Advice:
    model, machine = _model(question, recorded), _machine(question, recorded)
    usual = DefaultTimes(model, machine)
    evidence = RecordedTimes(recorded, model, machine) if recorded else usual
    predictor = Predictor(model, evidence, usual, machine.collectives, question.requests)
    found = [
        _candidate(predictor, question, layout, _memory(question, model, machine, layout))
        for layout in layouts(model.sizes, question.gpus)
    ]
    candidates = ranked(found, question.goal)
    possible = candidates[0].why_not is None
    as_good = overlapping(candidates, question.goal) if possible else []
    is_sure = evidence.is_recorded and evidence.error_pct <= MOST_ERROR_PCT
    is_told = possible and (is_sure or not as_good)
    return Advice(
        goal=question.goal,
        model=model,
        machine=machine,
        candidates=candidates,
        as_good=as_good,
        recommended=candidates[0] if is_told else None,
        is_recorded=evidence.is_recorded,
        error_pct=evidence.error_pct or None,
    )


def _model(question: Question, recorded: Recording | None) -> Model:
    if question.model:
        return model_named(question.model)
    if recorded is None:
        raise TraceqlError("no model is named; give --model, or --run with a recording of it")
    return recorded.model


def _machine(question: Question, recorded: Recording | None) -> Machine:
    name = question.gpu or (recorded.device_name if recorded else None)
    if name is None:
        raise TraceqlError("no GPU is named; give --gpu, such as --gpu h200")
    found = machine_named(name, question.peaks)
    if recorded and recorded.device_name == found.name:
        size = recorded.memory_bytes or found.memory_bytes
        return replace(with_points(found, recorded.points), memory_bytes=size)
    return found


def _memory(question: Question, model: Model, machine: Machine, layout: Layout) -> Memory:
    return memory(
        model,
        layout,
        gpu_bytes=machine.memory_bytes,
        utilization=question.utilization,
        request_tokens=question.max_model_len or question.requests.tokens,
    )


def _candidate(predictor: Predictor, question: Question, layout: Layout, held: Memory) -> Candidate:
    if held.obstacle:
        return Candidate(layout, held, None, f"does not fit: {held.obstacle}")
    predicted = _tried(predictor, question.goal, layout, most_requests(layout, held))
    if not predicted:
        return Candidate(layout, held, None, "the recording does not tell of this layout")
    chosen, why_not = best(predicted, question.goal)
    return Candidate(layout, held, chosen, why_not)


def _tried(predictor: Predictor, goal: Goal, layout: Layout, most: int) -> list[Prediction]:
    """Predictions for doubled numbers of requests, then for some that just keep the limits."""
    doubled = (predictor.predicted(layout, n) for n in numbers_of_requests(layout, most))
    found = [one for one in doubled if one is not None]
    while number := between(found, goal):
        one = predictor.predicted(layout, number)
        assert one is not None, "a layout is predicted for all numbers of requests or none"
        found.append(one)
    return found
