"""The times of the roles of a model on one rank: recorded, or from peaks."""

import json
import re
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from traceql.analysis.model.parts import LOGITS, Part, parts
from traceql.database.database import Database
from traceql.errors import TraceqlError, UnknownGpu, UnknownModel
from traceql.plan.advise.layouts import Load, Model, described, has_layers_of
from traceql.plan.advise.machine import Machine, Point

EXPERTS = frozenset(("experts_gate_up", "experts_down"))
FIRST_STAGE = frozenset(("embed",))
LAST_STAGE = frozenset(("final_norm", "lm_head", "sample"))
EVERY_STAGE = frozenset(("input_prep", "other", "copies", "other_step"))


@dataclass(frozen=True)
class RoleTimes:
    """One step of all layers of the model.

    Attributes:
        ns: by role; idle time has the role idle, copies the role copies.
        least_ns: the same at the peaks of the GPU; 0 where there is nothing to read or compute.
        unknown: the parts whose time is not known and is missing.
    """

    ns: Mapping[str, float]
    least_ns: Mapping[str, float]
    unknown: tuple[str, ...] = ()


class Evidence(ABC):
    """A source of the times of roles.

    Attributes:
        is_recorded: whether the times come from a recording.
        recorded_tp: the tensor-parallel size of the recording.
        is_other_gpu: whether the wanted GPU is another one than the recorded.
        error_pct: on the recorded decode steps; 0 if it could not be checked.
    """

    is_recorded = False
    recorded_tp: int | None = None
    is_other_gpu = False
    error_pct = 0.0

    @abstractmethod
    def times(self, load: Load, tp: int) -> RoleTimes | None:
        """The times on one of `tp` ranks; None if this source does not have them."""


_ALWAYS_HBM = ("activations", "kv_write", "gather")  # counted even if they fit into the L2 cache


@dataclass(frozen=True)
class PartFloor:
    """The floor of one part of one layer, ns, and the number of layers with that part."""

    part: Part
    layers: int
    compute_ns: float
    memory_ns: float

    @property
    def ns(self) -> float:
        return max(self.compute_ns, self.memory_ns)


def floors(model: Model, machine: Machine, load: Load, tp: int) -> Iterator[PartFloor]:
    """The floors of all parts on one of `tp` ranks.

    Raises UnknownGpu if the GPU's peak of a number type is not known.
    """
    for part, layers in _distinct_parts(model, tp).items():
        rows, window = _rows(part, load), _window_share(part, load)
        pairs = part.context_pair * load.context_pairs
        pairs += part.generation_pair * load.generation_pairs
        flops = part.flops_per_row * rows + pairs * window
        rate = machine.flops_per_ns.get(part.dtype or "")
        if flops and rate is None:
            raise UnknownGpu(f"the {part.dtype} peak of {machine.name} is not known; use --peaks")
        compute_ns = flops / rate if rate else 0.0
        memory_ns = _bytes(model, machine, part, load) / machine.bytes_per_ns
        yield PartFloor(part, layers, compute_ns, memory_ns)


@cache
def _distinct_parts(model: Model, tp: int) -> Mapping[Part, int]:
    """The distinct parts of a rank, and how many layers have each."""
    return Counter(part._replace(layer=None) for part in parts(model.sizes, model.formats, tp))


def _rows(part: Part, load: Load) -> int:
    return load.requests if part.rows == LOGITS else load.tokens


def _window_share(part: Part, load: Load) -> float:
    """Share of a request's tokens within the attention window."""
    return min(1.0, part.window / load.length) if part.window else 1.0


def _bytes(model: Model, machine: Machine, part: Part, load: Load) -> float:
    rows, element = _rows(part, load), model.formats.plain.input_bytes
    touched = 1.0
    if part.experts and part.top_k:  # the expected share, if all experts are equally likely
        touched = 1 - (1 - part.top_k / part.experts) ** rows
    weights = (part.weight_bytes or 0.0) * touched + part.gathered * rows
    cache = part.kv_written * rows + part.kv_read * load.kv_tokens * _window_share(part, load)
    tensors = [size * rows for size in part.tensors]
    if part.formula not in _ALWAYS_HBM:
        tensors = [size for size in tensors if size > machine.l2_bytes]
    return weights + cache * element + sum(tensors)


# Decode steps of Qwen3-8B on an H200: GEMMs read their weights at 0.9 of the peak and take some
# microseconds to start. docs/advise.md has the numbers.
MEMORY_SHARE = 0.9
COMPUTE_SHARE = 0.75
_START_NS = {"product": 5_000, "experts": 10_000, "attention": 12_000, "latent_attention": 12_000}
_SMALL_START_NS = 2_000
_GAP_NS = 500  # between kernels of a replayed graph
_SAMPLING_NS = 50_000  # sampling, inputs and copies


@dataclass(frozen=True)
class DefaultTimes(Evidence):
    """Floors with default efficiencies, for a model on a kind of GPU."""

    model: Model
    machine: Machine

    def times(self, load: Load, tp: int) -> RoleTimes:
        ns: dict[str, float] = defaultdict(float)
        least: dict[str, float] = defaultdict(float)
        for one in floors(self.model, self.machine, load, tp):
            start = _START_NS.get(one.part.formula, _SMALL_START_NS) + _GAP_NS
            longest = max(one.compute_ns / COMPUTE_SHARE, one.memory_ns / MEMORY_SHARE)
            ns[one.part.role] += one.layers * (longest + start)
            least[one.part.role] += one.layers * one.ns
        ns["sample"] = _SAMPLING_NS
        return RoleTimes(ns, least)


_TP_SIZES = (1, 2, 4, 8, 16)  # of the query whatif
_RECORDING = """
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
# Measured sizes (of a loaded peaks.json) replace the recorded ones.
_POINTS = """
    SELECT op, ranks, from_bytes AS bytes, ns
    FROM transfer_curve
    WHERE
        source IN ('measured', 'recorded') AND from_bytes > 0
        AND op <> 'peer_copy' AND device_name = $device
    ORDER BY op, ranks, bytes
"""
_OTHER_KINDS = ("communication", "waiting", "total")  # predicted elsewhere, or not at all
_LISTED_GPUS = "SELECT COALESCE(example, device) AS name FROM data_sheet_peak"
_OUTSIDE_LAYERS = FIRST_STAGE | LAST_STAGE | EVERY_STAGE


@dataclass(frozen=True)
class Recording:
    """A loaded run to predict from, with the times of its collectives and the memory of its GPU."""

    database: Database
    model: Model
    tp: int
    device_name: str
    points: tuple[Point, ...]
    memory_bytes: int | None


def recording(database: Database) -> Recording:
    """The recording in a database.

    Raises TraceqlError if it has no model configuration, or several pipeline stages.
    """
    found: dict[str, Any] = next(iter(database.select(_RECORDING)), {})
    path = database.path
    if not found.get("document"):
        raise TraceqlError(f"{path} has no model configuration; load it with --model-config")
    if not found["tp_size"] or not found["device_name"]:
        raise TraceqlError(f"{path} does not have its layout and GPU; load all ranks of a run")
    if found["pp_size"] != 1:
        raise TraceqlError(f"{path} has pipeline stages; use a recording without them")
    name = found["name"] or found["path"]
    points = [
        (row["op"], row["ranks"], float(row["bytes"]), float(row["ns"]))
        for row in database.select(_POINTS, {"device": found["device_name"]})
    ]
    model = described(name, json.loads(found["document"]))
    return Recording(
        database,
        model,
        found["tp_size"],
        found["device_name"],
        tuple(points),
        found["memory_bytes"],
    )


class RecordedTimes(Evidence):
    """Times scaled from a recording of a model with the same layers, on any kind of GPU.

    Raises:
        UnknownModel: the recording is of another model.
        UnknownGpu: the wanted GPU is not in the recording's list of peaks.
    """

    is_recorded = True

    def __init__(self, recording: Recording, model: Model, machine: Machine) -> None:
        self._recording, self._model, self._machine = recording, model, machine
        self._cache: dict[tuple[Load, int], RoleTimes | None] = {}
        self.recorded_tp = recording.tp
        self.is_other_gpu = machine.name != recording.device_name
        path = recording.database.path
        if not has_layers_of(model, recording.model):
            raise UnknownModel(
                f"{path} is a recording of another model than {model.name}; omit --run, or record "
                "that model"
            )
        if self.is_other_gpu:
            listed = recording.database.select(_LISTED_GPUS)
            if machine.name not in {row["name"] for row in listed}:
                raise UnknownGpu(
                    f"{path} does not list {machine.name}; load the recording with --peaks"
                )
        *_, total = recording.database.query("whatif", no_wait=True).rows() or [{"error_pct": None}]
        self.error_pct = total["error_pct"] or 0.0

    def times(self, load: Load, tp: int) -> RoleTimes | None:
        """None if no step of the phase was recorded, or whatif does not have the size."""
        if (load, tp) not in self._cache:
            self._cache[load, tp] = self._predicted(load, tp) if tp in _TP_SIZES else None
        return self._cache[load, tp]

    def _predicted(self, load: Load, tp: int) -> RoleTimes | None:
        rows = self._recording.database.query(
            "whatif",
            batch=load.requests,
            context=load.length,
            tp=tp,
            phase=load.phase,
            no_wait=True,
            peak=f"^{re.escape(self._machine.name)}$" if self.is_other_gpu else None,
        ).rows()
        known = [row for row in rows if row["kind"] not in _OTHER_KINDS]
        if not known:
            return None
        ns: dict[str, float] = defaultdict(float)
        # Times of layers are scaled to the number of layers of the model.
        scale = self._model.layers / self._recording.model.layers
        for row in known:
            role = "idle" if row["kind"] == "idle" else row["part"]
            ns[role] += (row["predicted_ns"] or 0.0) * (1.0 if role in _OUTSIDE_LAYERS else scale)
        least: dict[str, float] = defaultdict(float)
        for one in floors(self._model, self._machine, load, tp):
            least[one.part.role] += one.layers * one.ns
        # whatif leaves out layers whose attention window is shorter than the context.
        ns["attention"] = max(ns["attention"], least["attention"])
        unknown = [row["part"] for row in known if row["predicted_ns"] is None]
        return RoleTimes(ns, least, tuple(unknown))
