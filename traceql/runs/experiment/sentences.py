"""The results of an experiment in sentences, the answer first."""

from collections.abc import Iterator, Mapping
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from traceql.util.text import format_count
from traceql.util.units import display_unit

if TYPE_CHECKING:
    from traceql.runs.experiment.experiment import Experiment

_STATUS = """
    SELECT
        COUNT(*) FILTER (number > 0) AS planned,
        COUNT(*) FILTER (number > 0 AND status = 'complete') AS complete,
        COUNT(*) FILTER (number = 0) AS profiles,
        COUNT(*) FILTER (number = 0 AND status = 'complete') AS profiled,
        COUNT(*) FILTER (status = 'failed') AS failed,
        COUNT(*) FILTER (status = 'missing') AS missing,
        COUNT(DISTINCT point_id) AS points
    FROM repeat
"""
_SKIPPED = "SELECT COUNT(*) AS points FROM point WHERE skipped_reason IS NOT NULL"
_MODELS = "SELECT DISTINCT model FROM point WHERE skipped_reason IS NULL ORDER BY model"
# The point with the best median of a metric, with its TPOT.
_BEST = """
    SELECT
        point.engine,
        point.in_flight,
        point.request_rate,
        point.prompt_tokens,
        point.output_tokens,
        value.median,
        value.low,
        value.high,
        value.coverage_pct,
        value.repeats,
        value.median / point.gpus AS per_gpu,
        value.low / point.gpus AS low_per_gpu,
        value.high / point.gpus AS high_per_gpu,
        tpot.median AS tpot_ns
    FROM point
    INNER JOIN point_value AS value USING (point_id)
    LEFT JOIN point_value AS tpot
        ON point.point_id = tpot.point_id AND tpot.metric = 'tpot' AND tpot.stat = 'median'
    WHERE point.model = $model AND value.metric = $metric AND value.stat = $stat
    ORDER BY {order}, point.point_id
    LIMIT 1
"""
_SCALED = """
    SELECT
        point.engine,
        base.engine AS base,
        point.gpus / base.gpus AS gpus,
        speedup.metric,
        LIST(speedup.ratio ORDER BY speedup.ratio) AS ratios
    FROM speedup
    INNER JOIN point USING (point_id)
    INNER JOIN point AS base ON speedup.base_point_id = base.point_id
    WHERE speedup.scaling = 'strong' AND speedup.metric IN ('tpot', 'ttft') AND point.model = $model
    GROUP BY ALL
    ORDER BY speedup.metric DESC, point.engine
"""
_FEW = """
    SELECT MIN(repeats) AS repeats, MIN(coverage_pct) AS coverage_pct
    FROM point_value
    WHERE metric IN ('tpot', 'batch_latency')
"""
_NOT_FOR_GATES = "SELECT name FROM experiment WHERE NOT for_gates ORDER BY experiment_id"
_INTERVAL = ("median", "low", "high")
_WANTED_COVERAGE = 90.0
# Metric, statistic, order of points and title.
_HEADLINES = (
    ("tpot", "median", "value.median", "Lowest TPOT"),
    ("batch_latency", "median", "value.median", "Lowest batch latency"),
    (
        "output_tokens_per_second",
        "total",
        "per_gpu DESC",
        "Most generated tokens per second and GPU",
    ),
)


class Sentence(NamedTuple):
    text: str
    warns: bool = False


def answers(found: "Experiment") -> Iterator[Sentence]:
    """The state of the experiment, its fastest points, the scaling, and caveats."""
    yield _status(found)
    for row in found.sql(_MODELS).rows():
        model = row["model"]
        yield from map(Sentence, _best(found, model))
        yield from map(Sentence, _scaling(found, model))
    yield from _warnings(found)


def _status(found: "Experiment") -> Sentence:
    (counts,), (skipped,) = found.sql(_STATUS).rows(), found.sql(_SKIPPED).rows()
    done = [f"{counts['complete']:,} of {counts['planned']:,} repeats"]
    if counts["profiles"]:
        done.append(f"{counts['profiled']:,} of {counts['profiles']:,} profiles")
    status = f"{format_count(counts['points'], 'point')}, {' and '.join(done)} complete"
    rest = [f"{counts[name]:,} {name}" for name in ("failed", "missing") if counts[name]]
    status += f" ({', '.join(rest)})" if rest else ""
    if skipped["points"]:
        status += f"; {format_count(skipped['points'], 'point')} left out"
    return Sentence(f"{status}.", warns=bool(rest))


def _best(found: "Experiment", model: str) -> Iterator[str]:
    for metric, stat, order, title in _HEADLINES:
        parameters = {"model": model, "metric": metric, "stat": stat}
        for row in found.sql(_BEST.format(order=order), parameters).rows():
            is_rate = stat == "total"
            names = ("per_gpu", "low_per_gpu", "high_per_gpu") if is_rate else _INTERVAL
            numbers = [row[name] for name in names if row[name] is not None]
            best, *ends = map(format_duration, numbers)
            if is_rate:
                best, *ends = (f"{one:,.{0 if one >= 10 else 2}f}" for one in numbers)
            interval = " (one repeat)"
            if ends:
                confidence = f"{row['coverage_pct']:.0f}% interval of {row['repeats']} repeats"
                interval = f" ({' to '.join(ends)}, {confidence})"
            tpot = ""
            if is_rate and row["tpot_ns"] is not None:
                tpot = f"; TPOT is {format_duration(row['tpot_ns'])} there"
            yield f"{title} of {model}: {best}{interval}, {_where(row, model)}{tpot}."


def _scaling(found: "Experiment", model: str) -> Iterator[str]:
    for row in found.sql(_SCALED, {"model": model}).rows():
        ratios, gpus = row["ratios"], row["gpus"]
        engine, base = (row[name].removeprefix(f"{model} ") for name in ("engine", "base"))
        middle = median(ratios)
        span = f" ({ratios[0]:.2f} to {ratios[-1]:.2f})" if len(ratios) > 1 else ""
        points = f"in the median of {len(ratios)} points{span}" if span else "at one point"
        yield (
            f"{row['metric'].upper()} of {model} with {engine} against {base}: {middle:.2f} "
            f"times as fast {points}: an efficiency of {100 * middle / gpus:.0f}%."
        )


def _warnings(found: "Experiment") -> Iterator[Sentence]:
    (few,) = found.sql(_FEW).rows()
    repeats, coverage = few["repeats"], few["coverage_pct"]
    if repeats == 1:
        text = "Some points have one repeat: the variation between starts is unknown."
        yield Sentence(text, warns=True)
    elif coverage is not None and coverage < _WANTED_COVERAGE:
        text = (
            f"Some points have {repeats} repeats: their intervals have a confidence of "
            f"{coverage:.0f}%, those of five repeats of 94%."
        )
        yield Sentence(text, warns=True)
    for row in found.sql(_NOT_FOR_GATES).rows():
        text = f"{row['name']} is exploratory: its plan is not for gates."
        yield Sentence(text, warns=True)


def _where(row: Mapping[str, Any], model: str) -> str:
    load = f"{row['in_flight']:,} in flight" if row["in_flight"] else ""
    rate = f"{row['request_rate']:g} requests/s" if row["request_rate"] else ""
    size = f"prompts of {row['prompt_tokens']:,}, {row['output_tokens']:,} generated"
    return ", ".join(
        part for part in (row["engine"].removeprefix(f"{model} "), load, rate, size) if part
    )


def format_duration(ns: float) -> str:
    unit = display_unit("dur", ns)
    assert unit is not None
    return f"{ns / unit.divisor:,.2f} {unit.symbol}"
