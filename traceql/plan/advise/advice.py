"""Which layout of a model to run for a goal."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from traceql.database.database import Database
from traceql.database.terminology import Terminology
from traceql.errors import TraceqlError
from traceql.plan.advise.check import Check, check
from traceql.plan.advise.layouts import Layout, Memory, layouts, memory
from traceql.plan.advise.machine import Machine, machine_named, with_points
from traceql.plan.advise.measured import (
    MeasuredPoint,
    Results,
    measured_points,
    only_gpu,
    only_model,
)
from traceql.plan.advise.models import Model, model_named
from traceql.plan.advise.prediction import Prediction, Predictor, Requests
from traceql.plan.advise.ranking import (
    Candidate,
    Goal,
    best,
    between,
    most_requests,
    numbers_of_requests,
    overlapping,
    ranked,
)
from traceql.plan.advise.role_times import DefaultTimes, RecordedTimes, Recording, recording
from traceql.result import Result
from traceql.runs.experiment import experiment
from traceql.runs.experiment.load import quiet
from traceql.sql.query import Query, queries_in
from traceql.util.resources import QUERIES

FOLDER: Path = QUERIES / "advise"
_ORDER = ("look", "unknown", "ok")
_SENTENCES = ("item", "evidence", "advice")


def items() -> dict[str, Query]:
    """The queries of the checklist by name."""
    return queries_in(FOLDER)


def checklist(trace: Database) -> Result:
    """One row per item; what is worth a look first."""
    rows = [
        _said(trace.terminology, row) for one in items().values() for row in trace.select(one.sql)
    ]
    rows.sort(key=lambda row: _ORDER.index(row["state"]))
    columns = [column.name for column in next(iter(items().values())).head.columns]
    return Result(pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in columns])))


def _said(terminology: Terminology, row: dict[str, Any]) -> dict[str, Any]:
    """A row whose texts are in the words of the run."""
    return row | {name: terminology(row[name]) for name in _SENTENCES if row[name] is not None}


MOST_ERROR_PCT = 25.0  # on recorded steps and measured points, up to which a ranking is told


@dataclass(frozen=True)
class Question:
    """What is asked.

    Attributes:
        model: a name or the path of a config.json; that of the recording or the results if None.
        gpu: a name; that of the recording or the results if None.
        gpus: most GPUs that may be used.
        max_model_len: most tokens of a request; as many as the requests have if None.
        utilization: share of the memory that vLLM may use.
        run: a database to predict from; None for data sheets alone.
        peaks: files of peaks, as for `traceql load --peaks`.
        results: of an experiment: a database, or a folder; None if nothing was measured.
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
    results: Path | None = None


@dataclass(frozen=True)
class Advice:
    """The answer.

    Attributes:
        candidates: all layouts, the best first.
        as_good: layouts that cannot be told from the first one.
        recommended: None if none can be.
        error_pct: of the method on the recorded steps; None if they could not be checked.
        check: of the same predictions, by points that were measured; None without results.
    """

    goal: Goal
    requests: Requests
    model: Model
    machine: Machine
    candidates: Sequence[Candidate]
    as_good: Sequence[Layout]
    recommended: Candidate | None
    is_recorded: bool
    error_pct: float | None
    check: Check | None = None

    @property
    def measured_error_pct(self) -> float | None:
        """The largest of the errors that count for the best layout; None if none is known."""
        if self.check is None:
            return None
        return self.check.errors(self.goal.limits).worst_pct(self.candidates[0].layout)

    @property
    def measured(self) -> Sequence[MeasuredPoint]:
        """The points of the best layout that were measured and can be compared; not of replicas."""
        every = self.check.checked if self.check else ()
        return [one.point for one in every if one.point.layout == self.candidates[0].layout]


def advise(question: Question, *, warn: Callable[[str], None] = quiet) -> Advice:
    """The layouts that the question allows, ranked by its goal.

    Args:
        warn: is told what of the results cannot be read.

    Raises:
        UnknownModel: the model is not known, or is not that of the recording.
        UnknownGpu: the GPU is not known.
        TraceqlError: the requests are longer than `max_model_len`, the recording is no use, or the
            results are of another model or GPU.
    """
    longest = question.max_model_len or question.requests.tokens
    if question.requests.tokens > longest:
        raise TraceqlError(
            f"requests of {question.requests.tokens:,} tokens are longer than --max-model-len "
            f"{longest:,}; give a longer one, or shorter requests"
        )
    results = _results(question, warn)
    if question.run is None:
        return _advice(question, None, results)
    with Database(question.run) as trace:
        return _advice(question, recording(trace), results)


def _results(question: Question, warn: Callable[[str], None]) -> Results | None:
    if question.results is None:
        return None
    with experiment(question.results, warn=warn) as opened:
        return Results(str(question.results), measured_points(opened))


def _advice(question: Question, recorded: Recording | None, results: Results | None) -> Advice:
    model = _model(question, recorded, results)
    machine = _machine(question, recorded, results)
    usual = DefaultTimes(model, machine)
    evidence = RecordedTimes(recorded, model, machine) if recorded else usual
    predictor = Predictor(model, evidence, usual, machine.collectives, question.requests)
    found = check(results, predictor, machine) if results else None
    if found:
        predictor = replace(predictor, errors=found.errors(question.goal.limits))
    candidates = ranked(
        (
            _candidate(predictor, question, layout, _memory(question, model, machine, layout))
            for layout in layouts(model.sizes, question.gpus)
        ),
        question.goal,
    )
    possible = candidates[0].why_not is None
    as_good = overlapping(candidates, question.goal) if possible else []
    advice = Advice(
        goal=question.goal,
        requests=question.requests,
        model=model,
        machine=machine,
        candidates=candidates,
        as_good=as_good,
        recommended=candidates[0] if possible else None,
        is_recorded=evidence.is_recorded,
        error_pct=evidence.error_pct or None,
        check=found,
    )
    return advice if _is_told(advice) else replace(advice, recommended=None)


def _is_told(advice: Advice) -> bool:
    """Whether the evidence allows to recommend the best layout.

    Points that were measured forbid it if their predictions are far off. If other layouts may be as
    good, it takes a recording, or points of this very layout.
    """
    measured_pct = advice.measured_error_pct
    if measured_pct is not None and measured_pct > MOST_ERROR_PCT:
        return False
    if not advice.as_good:
        return True
    if advice.is_recorded:
        return (advice.error_pct or 0.0) <= MOST_ERROR_PCT
    return bool(advice.measured)


def _model(question: Question, recorded: Recording | None, results: Results | None) -> Model:
    if question.model:
        return model_named(question.model)
    if recorded:
        return recorded.model
    if results:
        return only_model(results)
    raise TraceqlError(
        "no model is named; give --model, or --run or --results with a recording or results of it"
    )


def _machine(question: Question, recorded: Recording | None, results: Results | None) -> Machine:
    name = question.gpu or (recorded.device_name if recorded else None)
    if name is None and results:
        name = only_gpu(results)
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
