"""Times of roles that query whatif predicts from a recording of one layout."""

import json
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from traceql.database.trace import Trace
from traceql.errors import TraceqlError, UnknownGpu, UnknownModel
from traceql.plan.advise.floor import floors
from traceql.plan.advise.load import Load
from traceql.plan.advise.machine import Machine, Point
from traceql.plan.advise.models import Model, described, has_layers_of
from traceql.plan.advise.role_times import EVERY_STAGE, FIRST_STAGE, LAST_STAGE, RoleTimes

_SPLIT = (1, 2, 4, 8, 16)  # tensor-parallel sizes that whatif knows
_WHAT = """
    SELECT
        layout.tp_size, layout.pp_size, trace.device_name,
        model_config.document, model_config.path,
        run.model AS name,
        CAST(run.document ->> '$.gpus[0].memory_bytes' AS BIGINT) AS memory_bytes
    FROM layout
    INNER JOIN trace USING (rank)
    LEFT JOIN model_config ON TRUE
    LEFT JOIN run ON TRUE
    ORDER BY layout.rank
    LIMIT 1
"""
# Where sizes were measured (in a peaks.json that was loaded), the curve has no recorded ones.
_POINTS = """
    SELECT op, ranks, from_bytes AS bytes, ns
    FROM transfer_curve
    WHERE
        source IN ('measured', 'recorded') AND from_bytes > 0
        AND op <> 'peer_copy' AND device_name = $device
    ORDER BY op, ranks, bytes
"""
_ELSEWHERE = ("communication", "waiting", "total")  # told by others, or not at all
_OUTSIDE_LAYERS = FIRST_STAGE | LAST_STAGE | EVERY_STAGE


@dataclass(frozen=True)
class Recording:
    """A loaded run that predictions start from.

    Attributes:
        model: what it recorded.
        tp: its tensor-parallel size.
        points: the times of its operations.
        memory_bytes: of its GPU; None if it does not say.
    """

    trace: Trace
    model: Model
    tp: int
    device_name: str
    points: tuple[Point, ...]
    memory_bytes: int | None


def recording(trace: Trace) -> Recording:
    """The recording in a database.

    Raises:
        TraceqlError: it has no model configuration, or several pipeline stages.
    """
    found: dict[str, Any] = next(iter(trace.select(_WHAT)), {})
    path = trace.path
    if not found.get("document"):
        raise TraceqlError(f"{path} has no model configuration; load it with --model-config")
    if not found["tp_size"] or not found["device_name"]:
        raise TraceqlError(f"{path} does not say its layout and GPU; load all ranks of a run")
    if found["pp_size"] != 1:
        raise TraceqlError(f"{path} has pipeline stages; give a recording of one stage")
    name = found["name"] or found["path"]
    points = [
        (row["op"], row["ranks"], float(row["bytes"]), float(row["ns"]))
        for row in trace.select(_POINTS, {"device": found["device_name"]})
    ]
    model = described(name, json.loads(found["document"]))
    return Recording(
        trace, model, found["tp_size"], found["device_name"], tuple(points), found["memory_bytes"]
    )


class RecordedTimes:
    """What a recording says of a model with the same layers, on a GPU of any kind.

    Attributes:
        recorded_tp: the tensor-parallel size of the recording.
        is_elsewhere: whether the asked GPU is not the recorded one.
        error_pct: of the method on the recorded decode steps; 0 if it could not be checked.

    Raises:
        UnknownModel: the recording is of another model.
        UnknownGpu: the asked GPU is not in the recording's list of peaks.
    """

    is_recorded = True

    def __init__(self, recording: Recording, model: Model, machine: Machine) -> None:
        self._recording, self._model, self._machine = recording, model, machine
        self._known: dict[tuple[Load, int], RoleTimes | None] = {}
        self.recorded_tp = recording.tp
        self.is_elsewhere = machine.name != recording.device_name
        _require_same_layers(recording, model)
        if self.is_elsewhere:
            _require_listed(recording, machine)
        *_, total = recording.trace.run("whatif", no_wait=True).rows() or [{"error_pct": None}]
        self.error_pct: float = total["error_pct"] or 0.0

    def times(self, load: Load, tp: int) -> RoleTimes | None:
        """None if no step of the phase was recorded, or whatif does not know the size."""
        if (load, tp) not in self._known:
            self._known[load, tp] = self._predicted(load, tp) if tp in _SPLIT else None
        return self._known[load, tp]

    def _predicted(self, load: Load, tp: int) -> RoleTimes | None:
        rows = self._recording.trace.run(
            "whatif",
            batch=load.requests,
            context=load.length,
            tp=tp,
            phase=load.phase,
            no_wait=True,
            peak=_pattern(self._machine.name) if self.is_elsewhere else None,
        ).rows()
        known = [row for row in rows if row["kind"] not in _ELSEWHERE]
        if not known:
            return None
        ns: dict[str, float] = defaultdict(float)
        for row in known:
            ns[_role(row)] += (row["predicted_ns"] or 0.0) * self._scale(_role(row))
        least: dict[str, float] = defaultdict(float)
        for one in floors(self._model, self._machine, load, tp):
            least[one.part.role] += one.layers * one.ns
        # whatif leaves out layers whose attention window is shorter than the context.
        ns["attention"] = max(ns["attention"], least["attention"])
        unknown = [row["part"] for row in known if row["predicted_ns"] is None]
        return RoleTimes(ns, least, tuple(unknown))

    def _scale(self, role: str) -> float:
        """How many layers the model has for each recorded one."""
        if role in _OUTSIDE_LAYERS:
            return 1.0
        return self._model.layers / self._recording.model.layers


def _require_same_layers(recording: Recording, model: Model) -> None:
    if not has_layers_of(model, recording.model):
        raise UnknownModel(
            f"{recording.trace.path} is a recording of another model than {model.name}; leave "
            "--run out, or record that model"
        )


def _require_listed(recording: Recording, machine: Machine) -> None:
    listed = "SELECT COALESCE(example, device) AS name FROM data_sheet_peak"
    if machine.name not in {row["name"] for row in recording.trace.select(listed)}:
        path = recording.trace.path
        raise UnknownGpu(f"{path} does not list {machine.name}; load the recording with --peaks")


def _role(row: dict[str, Any]) -> str:
    part: str = row["part"]
    return "idle" if row["kind"] == "idle" else part


def _pattern(name: str) -> str:
    """A regular expression for this name alone."""
    return f"^{re.escape(name)}$"
