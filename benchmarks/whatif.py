"""How well `traceql run whatif` predicts: each recording from the others that differ in one thing.

    python benchmarks/whatif.py RUN... [--phase decode] [--parts]

RUN is a run directory of traceql capture, or a database made from one. Two recordings are a pair if
they are of the same model, GPU and types of numbers, and differ in one of: batch, tensor-parallel
size, and whether CUDA graphs are replayed. Prints the deviation of the predicted from the measured
step for each pair, and the median of their absolute values for each kind of prediction.
"""

import argparse
import itertools
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import traceql

_WHAT = """
    SELECT
        model_config.model_type || model_config.layers || ' ' || model_config.hidden_size AS model,
        layout.tp_size,
        layout.pp_size,
        trace.device_name,
        run_file.document ->> '$.engine_arguments.quantization' AS quantization,
        run_file.document ->> '$.engine_arguments.kv_cache_dtype' AS kv_cache,
        CAST(run_file.document ->> '$.eager' AS BOOLEAN) AS eager
    FROM layout
    INNER JOIN trace USING (rank)
    CROSS JOIN model_config
    CROSS JOIN run_file
    WHERE layout.rank = 0
"""
_USUAL = """
    SELECT
        CASE $phase WHEN 'decode' THEN generation_requests ELSE context_requests END AS batch,
        tokens, kv_tokens
    FROM step_class
    WHERE rank = 0 AND phase = $phase
    ORDER BY steps DESC, batch DESC
    LIMIT 1
"""


class Comparison(NamedTuple):
    """A predicted step and the measured one.

    Attributes:
        predicted, measured: durations, ns; predicted is a lower bound if a part is unknown.
        deviation: that of the whole step, percent.
        busy_deviation: that of computation and communication alone, percent.
        unknown: the parts that are not predicted, as text.
        parts: the parts that deviate most, as text.
    """

    predicted: float
    measured: float
    deviation: float
    busy_deviation: float
    unknown: str
    parts: list[str]


class Recording(NamedTuple):
    """What was recorded, and the part of it that is predicted: its most frequent size of step."""

    name: str
    database: Path
    fixed: tuple[Any, ...]  # model, pipeline stages, GPU and types of numbers
    tp: int
    batch: int
    context: int | None  # decode: mean length of a request; prefill: tokens of a prompt
    graph: bool


_FIXED = ("model", "pp_size", "device_name", "quantization", "kv_cache")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--phase", choices=("decode", "prefill"), default="decode")
    parser.add_argument("--parts", action="store_true", help="print the parts that deviate most")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        databases = [_database(run, Path(scratch)) for run in options.runs]
        recordings = [r for d in databases if (r := _recording(d, options.phase))]
        pairs = list(_pairs(recordings))
        if options.phase == "prefill":  # without graphs in either case
            pairs = [pair for pair in pairs if not pair[0].startswith("graph")]
        compared = [_compared(kind, base, target, options.phase) for kind, base, target in pairs]
    found = defaultdict(list)
    for (kind, base, target), one in zip(pairs, compared, strict=True):
        found[kind].append(one)
        print(
            f"{kind:9} {base.name:26} -> {target.name:26} {one.measured / 1e6:7.3f} ms, predicted "
            f"{one.predicted / 1e6:7.3f} ms {one.deviation:+6.1f}%, busy {one.busy_deviation:+.1f}%"
            f"{'; without ' + one.unknown if one.unknown else ''}"
        )
        if options.parts:
            print("".join(f"          {part}\n" for part in one.parts), end="")
    for kind, those in found.items():
        print(
            f"{kind:9} {len(those):2} pairs: {_spread([one.deviation for one in those])}; "
            f"busy: {_spread([one.busy_deviation for one in those])}"
        )


def _spread(deviations: list[float]) -> str:
    sizes = [abs(one) for one in deviations]
    return f"median {statistics.median(sizes):.1f}%, worst {max(sizes):.1f}%"


def _database(run: Path, scratch: Path) -> Path:
    if run.is_file():
        return run
    database = scratch / f"{run.name}.duckdb"
    traceql.load([run], database)
    return database


def _recording(database: Path, phase: str) -> Recording | None:
    with traceql.open(database) as trace:
        what = list(trace.select(_WHAT))
        usual = list(trace.select(_USUAL.replace("$phase", f"'{phase}'")))
    if not what or not usual:
        return None
    (found,), (size,) = what, usual
    context = size["tokens"] if phase == "prefill" else size["kv_tokens"]
    return Recording(
        database.stem,
        database,
        tuple(found[name] for name in _FIXED),
        found["tp_size"],
        size["batch"],
        None if context is None else round(context / size["batch"]),
        not found["eager"],
    )


def _pairs(recordings: list[Recording]) -> Iterator[tuple[str, Recording, Recording]]:
    for base, target in itertools.permutations(recordings, 2):
        names = ("batch", "tp", "graph")
        differs = [name for name in names if getattr(base, name) != getattr(target, name)]
        if base.fixed == target.fixed and len(differs) == 1:
            (kind,) = differs
            if kind == "graph":
                kind = "graph on" if target.graph else "graph off"
            yield kind, base, target


def _compared(kind: str, base: Recording, target: Recording, phase: str) -> Comparison:
    options = {
        "batch": target.batch,
        "tp": target.tp,
        "graph": kind.removeprefix("graph ") if kind.startswith("graph") else None,
        "context": target.context,
        "phase": phase,
    }
    with traceql.open(base.database) as trace:
        predicted = {(row["kind"], row["part"]): row for row in trace.query("whatif", **options)}
    with traceql.open(target.database) as trace:
        rows = trace.query("whatif", phase=phase)
        measured = {(row["kind"], row["part"]): row["measured_ns"] or 0.0 for row in rows}
    total = ("total", "total")
    differences = {
        part: (row["predicted_ns"] or 0.0) - measured.get(part, 0.0)
        for part, row in predicted.items()
        if part != total
    }
    worst = sorted(differences, key=lambda part: -abs(differences[part]))[:6]
    busy = [part for part in {**predicted, **measured} if part[0] in ("computing", "communication")]
    busy_ns = sum(predicted[p]["predicted_ns"] or 0.0 for p in busy if p in predicted)
    whole = predicted[total]["predicted_ns"]
    return Comparison(
        whole,
        measured[total],
        100 * (whole / measured[total] - 1),
        100 * (busy_ns / sum(measured.get(part, 0.0) for part in busy) - 1),
        ", ".join(name for (_, name), row in predicted.items() if row["predicted_ns"] is None),
        [
            f"{part[1]:18} {differences[part] / 1000:+9.1f} us of "
            f"{measured.get(part, 0) / 1000:9.1f} us, {predicted[part]['how']}"
            for part in worst
        ],
    )


if __name__ == "__main__":
    main()
