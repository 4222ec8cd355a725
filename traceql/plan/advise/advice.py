"""Which layout of a model to run for a goal."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from traceql.database.database import Database
from traceql.errors import TraceqlError
from traceql.plan.advise.check import (
    Check,
    MeasuredPoint,
    Results,
    check,
    measured_points,
    only_gpu,
    only_model,
)
from traceql.plan.advise.layouts import Layout, Memory, Model, layouts, memory, model_named
from traceql.plan.advise.machine import Machine, machine_named, with_points
from traceql.plan.advise.prediction import Prediction, Predictor, Requests
from traceql.plan.advise.ranking import (
    Candidate,
    Goal,
    best,
    bisected_requests,
    max_requests,
    parsed_goal,
    ranked,
    request_counts,
    tied_layouts,
)
from traceql.plan.advise.role_times import DefaultTimes, RecordedTimes, Recording, recording
from traceql.runs.experiment import experiment

MAX_ERROR_PCT = 25.0  # on recorded steps and measured points; larger errors allow no ranking


@dataclass(frozen=True)
class Advice:
    """All layouts of a model for a goal.

    Attributes:
        gpus: most GPUs that may be used.
        candidates: all layouts, the best first.
        tied: layouts that are statistically tied with the first one.
        recommended: None if the evidence does not support one.
        error_pct: of predictions of the recorded steps; None if they could not be checked.
        check: predictions of measured points; None without results.
    """

    goal: Goal
    gpus: int
    requests: Requests
    model: Model
    machine: Machine
    candidates: Sequence[Candidate]
    tied: Sequence[Layout]
    recommended: Candidate | None
    is_recorded: bool
    error_pct: float | None
    check: Check | None = None

    @property
    def measured_error_pct(self) -> float | None:
        """The largest of the errors that count for the best layout; None if none is known."""
        errors = self.check and self.check.errors(self.goal.limits)
        return errors.worst_pct(self.candidates[0].layout) if errors else None

    @property
    def measured(self) -> Sequence[MeasuredPoint]:
        """The measured points of the best layout that can be compared."""
        checked = self.check.checked if self.check else ()
        return [one.point for one in checked if one.point.layout == self.candidates[0].layout]

    @property
    def is_reliable(self) -> bool:
        """Whether the evidence supports recommending the best layout.

        Predictions that are far off at measured points do not. If other layouts are tied, it takes
        a recording, or measured points of this layout.
        """
        measured_pct = self.measured_error_pct
        if measured_pct is not None and measured_pct > MAX_ERROR_PCT:
            return False
        if not self.tied:
            return True
        if self.is_recorded:
            return (self.error_pct or 0.0) <= MAX_ERROR_PCT
        return bool(self.measured)


def advise(
    run: str | Path | Database | None = None,
    *,
    goal: str = "max throughput",
    model: str | None = None,
    gpu: str | None = None,
    gpus: int = 8,
    prompt_tokens: int = 1024,
    output_tokens: int = 256,
    max_model_len: int | None = None,
    utilization: float = 0.9,
    peaks: Sequence[str | Path] = (),
    results: str | Path | None = None,
    warn: Callable[[str], None] = lambda text: None,
) -> Advice:
    """Ranks the layouts of a model on up to N GPUs by a goal.

    Args:
        run: a recording of one layout to predict from; None for data sheets alone.
        goal: such as "tpot < 20ms, ttft < 500ms, max throughput"; also min tpot or min gpus.
        model: a name or the path of a config.json; by default that of the run or the results.
        gpu: a name such as h200; by default that of the run or the results.
        gpus: most GPUs to use, of one machine.
        prompt_tokens: tokens of a prompt.
        output_tokens: generated tokens of a request.
        max_model_len: most tokens of a request; by default as many as the requests have.
        utilization: share of the memory that vLLM may use.
        peaks: files of peaks, as for `traceql load --peaks`.
        results: of an experiment, to check predictions with: a database or a folder.
        warn: called with a sentence about each part of the results that cannot be read.

    Raises:
        GoalInvalid: the goal has neither a limit nor an aim, or contradicts itself.
        UnknownModel: the model is not known, or is not that of the recording.
        UnknownGpu: the GPU is not known.
        TraceqlError: the requests are longer than `max_model_len`, the recording cannot be used,
            or the results are of another model or GPU.
    """
    wanted, requests = parsed_goal(goal), Requests(prompt_tokens, output_tokens)
    longest = max_model_len or requests.tokens
    if requests.tokens > longest:
        raise TraceqlError(
            f"requests of {requests.tokens:,} tokens are longer than --max-model-len {longest:,}; "
            "increase it, or use shorter requests"
        )
    measured = None
    if results is not None:
        with experiment(results, warn=warn) as opened:
            measured = Results(str(results), measured_points(opened))
    with ExitStack() as stack:
        if isinstance(run, str | Path):
            run = stack.enter_context(Database(run))
        recorded = recording(run) if run else None
        if model:
            chosen = model_named(model)
        elif recorded:
            chosen = recorded.model
        elif measured:
            chosen = only_model(measured)
        else:
            raise TraceqlError(
                "no model is named; use --model, or --run or --results with a recording or "
                "results of it"
            )
        machine = _machine(gpu, [Path(one) for one in peaks], recorded, measured)
        defaults = DefaultTimes(chosen, machine)
        evidence = RecordedTimes(recorded, chosen, machine) if recorded else defaults
        predictor = Predictor(chosen, evidence, defaults, machine.collectives, requests)
        checked = check(measured, predictor, machine) if measured else None
        if checked:
            predictor = replace(predictor, errors=checked.errors(wanted.limits))
        limits = {"gpu_bytes": machine.memory_bytes, "utilization": utilization}
        memories = (
            (layout, memory(chosen, layout, **limits, request_tokens=longest))
            for layout in layouts(chosen.sizes, gpus)
        )
        candidates = ranked((_candidate(predictor, wanted, *one) for one in memories), wanted)
    possible = candidates[0].why_not is None
    advice = Advice(
        wanted, gpus, requests, chosen, machine, candidates,
        tied=tied_layouts(candidates, wanted) if possible else [],
        recommended=candidates[0] if possible else None,
        is_recorded=evidence.is_recorded,
        error_pct=evidence.error_pct or None,
        check=checked,
    )  # fmt: skip
    return advice if advice.is_reliable else replace(advice, recommended=None)


def _machine(
    gpu: str | None, peaks: Sequence[Path], recorded: Recording | None, measured: Results | None
) -> Machine:
    name = gpu or (recorded.device_name if recorded else None)
    if name is None and measured:
        name = only_gpu(measured)
    if name is None:
        raise TraceqlError("no GPU is named; use --gpu, such as --gpu h200")
    machine = machine_named(name, peaks)
    if recorded and recorded.device_name == machine.name:
        size = recorded.memory_bytes or machine.memory_bytes
        return replace(with_points(machine, recorded.points), memory_bytes=size)
    return machine


def _candidate(predictor: Predictor, goal: Goal, layout: Layout, memory: Memory) -> Candidate:
    """The layout with its best number of requests: doubled ones, then bisected to the limits."""
    if memory.obstacle:
        return Candidate(layout, memory, None, f"does not fit: {memory.obstacle}")
    predictions: list[Prediction] = []
    for count in request_counts(layout, max_requests(layout, memory)):
        if prediction := predictor.predicted(layout, count):
            predictions.append(prediction)
    while number := bisected_requests(predictions, goal):
        prediction = predictor.predicted(layout, number)
        assert prediction is not None, "a layout is predicted for all numbers of requests or none"
        predictions.append(prediction)
    if not predictions:
        return Candidate(layout, memory, None, "the recording does not cover this layout")
    return Candidate(layout, memory, *best(predictions, goal))
