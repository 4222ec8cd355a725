"""The text output of traceql diff: answer, set-up, numbers and causes."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import click

from traceql.cli.output import align, print_text, terminal_width
from traceql.result.text_table.values import places, without_middle
from traceql.runs.compare.changes import HAS_WAIT
from traceql.runs.compare.comparison import Comparison
from traceql.runs.compare.layers_and_kernels import short_name
from traceql.runs.compare.sentences import (
    MARKS,
    KernelChange,
    KernelUse,
    answers,
    cause_name,
    format_percent,
    format_time,
    format_time_change,
    format_values,
    kernel_changes,
    layers,
    roots,
)
from traceql.runs.compare.setup import Difference, Effect
from traceql.runs.compare.verdict import Verdict
from traceql.util.text import format_count, one_line

_MAX_CAUSES, _MAX_LARGE = 10, 6  # lines of causes; the largest of them, significant or not
_MAX_KERNELS = 3  # in a line
_MAX_DIFFERENCES = 3  # of one kind in a line
_COLOURS = {"slower": "red", "faster": "green", "new": "yellow", "gone": "yellow"}
_MARKS = {Effect.FORBIDS: "✗", Effect.WARNS: "!", Effect.NOTES: " ", Effect.FOLLOWS: " "}
_HEADLINES = """
    SELECT *
    FROM change
    WHERE kind IN ('latency', 'rate') OR (scope <> 'all' AND metric IN ('step', 'interval', 'busy'))
"""
_NAMES = {
    "step": "{} step",
    "interval": "{} step with idle before",
    "busy": "{} step, work of the GPU",
    "tokens_per_second": "output tokens per second",
    "ttft": "time to first token",
    "tpot": "time per output token",
    "itl": "inter-token latency",
    "e2e": "end-to-end latency",
}
_CAUSES = "SELECT * FROM cause WHERE scope = $scope AND (base_ns <> 0 OR new_ns <> 0)"
_TOTAL = "SELECT change, CAST(SUM(delta_ns) AS BIGINT) AS ns FROM total GROUP BY change"
_RECORDED = "SELECT side, ns / lanes AS ns FROM total_run ORDER BY side"
_STRATA = "SELECT * FROM stratum"
_RECORDING_PARTS = {
    "speed": "from the speed of steps",
    "work": "from more or fewer steps",
    "only one side": "from kinds of steps of only one side",
    "outside": "outside steps",
}


def print_comparison(comparison: Comparison, *, details: bool) -> None:
    """Prints the answer, the set-up, the numbers and the causes."""
    for answer in answers(comparison):
        print_text(one_line(answer.text), before=f"{MARKS[answer.verdict]} ", bold=True)
    click.echo()
    for side, runs in (("base", comparison.base), ("new ", comparison.new)):
        names = [one_line(run.name) for run in runs]
        text = names[0] if len(runs) == 1 else f"{names[0]} to {names[-1]}"
        line = f"{side}  {format_count(len(runs), 'run')}: {text}"
        click.echo(without_middle(line, terminal_width()))
    _print_setup(comparison.differences, details=details)
    if not comparison.same_recordings:
        _print_numbers(comparison)
    _print_coverage(comparison, details=details)
    changed = kernel_changes(comparison)
    scopes = comparison.scopes if details else comparison.scopes[:1]
    for scope in () if comparison.same_recordings else scopes:
        _print_causes(comparison, scope, changed, details=details)
    _print_recording(comparison)
    click.echo()
    print_text(
        "--details shows every cause, layer and kernel; --query list shows more tables; --report "
        "diff.html writes a page.",
        err=True,
    )


def _print_setup(differences: Sequence[Difference], *, details: bool) -> None:
    printed = [one for one in differences if details or one.effect is not Effect.FOLLOWS]
    derived = len(differences) - len(printed)
    click.echo()
    if not printed:
        click.echo("No difference of set-up is known.")
        return
    click.echo("Differences of set-up:")
    kinds: dict[tuple[Effect, str, str], list[Difference]] = {}
    for one in printed:
        kinds.setdefault((one.effect, one.title, one.reason), []).append(one)
    for (effect, title, reason), same in kinds.items():
        limit = len(same) if details else _MAX_DIFFERENCES
        changed = [
            f"{one.name} {format_values(one.base)} → {format_values(one.new)}"
            for one in same[:limit]
        ]
        changed += [f"and {len(same) - limit} more"] if len(same) > limit else []
        why = f"; {reason}" if reason else ""
        if effect is Effect.FORBIDS:
            why = f"; forbids a verdict: {reason}"
        print_text(one_line(f"{title}: {', '.join(changed)}{why}"), before=f"  {_MARKS[effect]} ")
    if derived:
        click.echo(f"    and {derived} settings derived by the engine (--details)")


def _print_numbers(comparison: Comparison) -> None:
    scopes, metrics = [*comparison.scopes, None], list(_NAMES)
    rows = sorted(
        comparison.table(_HEADLINES),
        key=lambda row: (scopes.index(row["scope"]), metrics.index(row["metric"])),
    )
    if not rows:
        return
    has_interval = any(row["low_pct"] is not None for row in rows)
    title = ["", "base", "new", "change", "95% interval" if has_interval else "spread", "verdict"]
    cells = [
        [
            comparison.terminology(
                _NAMES[row["metric"]]
                .format("" if row["scope"] == "unknown" else row["scope"])
                .strip()
            ),
            _format_value(row, "base"),
            _format_value(row, "new"),
            format_percent(row["change_pct"]),
            _format_certainty(row, has_interval=has_interval),
            _format_verdict(row),
        ]
        for row in rows
    ]
    click.echo()
    _print_table(title, cells, [row["verdict"] for row in rows])
    if has_interval:
        text = "base and new: the median run; change: the median of all pairs of a run of each side"
        print_text(text, before=" ")
    if any(row["reason"] == HAS_WAIT for row in rows):
        text = (
            "not comparable: the work of the GPU includes waiting for ranks that are not loaded; "
            "load the traces of all ranks to separate the two"
        )
        print_text(comparison.terminology(text), before=" ")


def _format_value(row: Mapping[str, Any], side: str) -> str:
    return f"{row[side]:,.0f}" if row["unit"] == "tokens/s" else format_time(row[side])


def _format_certainty(row: Mapping[str, Any], *, has_interval: bool) -> str:
    if row["low_pct"] is not None:
        return f"{format_percent(row['low_pct'])} to {format_percent(row['high_pct'])}"
    if has_interval:
        return ""
    if row["base_spread_pct"] is not None and row["new_spread_pct"] is not None:
        return f"runs {row['base_spread_pct']:.1f}%, {row['new_spread_pct']:.1f}%"
    noise = row["step_noise_pct"]
    return "" if noise is None else f"steps ±{noise:.1f}%"


def _format_verdict(row: Mapping[str, Any]) -> str:
    if row["verdict"] == Verdict.INCONCLUSIVE:
        return f"inconclusive: needs {row['runs_needed'] or 'over 50'} runs a side"
    return str(row["verdict"])


def _print_table(
    title: Sequence[str], rows: Sequence[Sequence[str]], verdicts: Sequence[str]
) -> None:
    """Prints a title and rows; all columns but the first and the last are numbers."""
    heads, *lines = _aligned([title, *rows], left=(0, len(title) - 1))
    click.secho(f" {'   '.join(heads)}".rstrip(), bold=True)
    click.echo(f" {'─' * places('   '.join(heads))}")
    for line, row, verdict in zip(lines, rows, verdicts, strict=True):
        colored = click.style(row[-1], fg=_COLOURS.get(verdict))
        click.echo(f" {'   '.join([*line[:-1], colored])}".rstrip())


def _aligned(rows: Sequence[Sequence[str]], left: Collection[int]) -> Iterator[list[str]]:
    """The cells of rows in the widths of their columns, of which some are aligned left."""
    widths = [max(map(places, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        yield [align(cell, width, right=column not in left) for column, (cell, width) in cells]


def _print_coverage(comparison: Comparison, *, details: bool) -> None:
    shares = {row["side"]: row for row in comparison.table("SELECT * FROM coverage")}
    strata = comparison.table(_STRATA)
    compared = [row for row in strata if row["is_compared"]]
    base, new = shares["base"], shares["new"]
    text = (
        f"Compared: {base['compared_pct']:.0f}% of the recorded time of base and "
        f"{new['compared_pct']:.0f}% of that of new, in steps of {len(compared)} of {len(strata)} "
        "kinds (phase, rows, KV length) that every run has."
    )
    if len(compared) < len(strata):
        text += (
            f" Not compared: {base['unmatched_pct']:.0f}% and {new['unmatched_pct']:.0f}% in "
            f"steps of other kinds; {base['outside_pct']:.0f}% and {new['outside_pct']:.0f}% "
            "outside steps."
        )
    click.echo()
    print_text(text)
    for row in strata if details else ():
        line = f"{row['stratum']}: {row['base_steps'] or 0} → {row['new_steps'] or 0} steps"
        if row["base_tokens"] is not None and row["new_tokens"] is not None:
            line += f", {row['base_tokens']:,.0f} → {row['new_tokens']:,.0f} tokens each"
        print_text(line + ("" if row["is_compared"] else "   not compared"), before="  ")


def _print_causes(
    comparison: Comparison,
    scope: str,
    changed: dict[tuple[str, str], KernelChange],
    *,
    details: bool,
) -> None:
    rows = comparison.table(_CAUSES, scope=scope)
    if not rows:
        return
    base, new = (sum(row[f"{side}_ns"] for row in rows) for side in ("base", "new"))
    name = "step" if scope == "unknown" else f"{scope} step"
    click.echo()
    click.secho(
        f"Where the {format_time_change(new - base)} of a {name} come from "
        f"({comparison.terminology('mean of the GPUs')}):",
        bold=True,
    )
    printed, rest = _select_causes(rows, details=details)

    def change(base_ns: float, new_ns: float, name: str, delta_ns: float) -> list[str]:
        return [format_time_change(delta_ns), name, format_time(base_ns), format_time(new_ns)]

    cells = [
        [
            *change(row["base_ns"], row["new_ns"], cause_name(row), row["delta_ns"]),
            _format_kernel_counts(row),
            _format_interval(row),
            str(row["verdict"] or ""),
        ]
        for row in printed
    ]
    if rest:
        rest_base, rest_new, delta = (
            sum(row[column] for row in rest) for column in ("base_ns", "new_ns", "delta_ns")
        )
        name_of_rest = f"{len(rest)} others"
        cells.append([*change(rest_base, rest_new, name_of_rest, delta), "", "", ""])
    cells.append([*change(base, new, name, new - base), "", "", ""])
    verdicts = [row["verdict"] for row in printed]
    _print_cause_table(cells, [*verdicts, *[None] * (len(cells) - len(printed))])
    _print_kernels(scope, changed, {row["metric"] for row in printed}, details=details)
    for text in (layers(comparison, scope), *roots(comparison, scope)):
        if text:
            print_text(one_line(text), before="  ")


def _select_causes(
    rows: list[dict[str, Any]], *, details: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows to print, and the others; spread comes last, because it is not a cause."""
    ordered = sorted(rows, key=lambda row: row["kind"] == "spread")
    if details or len(ordered) <= _MAX_CAUSES + 1:
        return ordered, []
    largest = sorted(ordered, key=lambda row: -abs(row["delta_ns"]))[:_MAX_LARGE]
    significant = [row for row in ordered if row["verdict"] in _COLOURS and row not in largest]
    kept = largest + significant[: _MAX_CAUSES - _MAX_LARGE]
    return [row for row in ordered if row in kept], [row for row in ordered if row not in kept]


def _format_kernel_counts(row: Mapping[str, Any]) -> str:
    base, new = row["base_kernels"], row["new_kernels"]
    if base is None or new is None or row["kind"] not in ("computing", "transfer", "communication"):
        return ""
    if round(base) == round(new):
        return format_count(round(base), "kernel")
    return f"{base:,.0f} → {new:,.0f} kernels"


def _format_interval(row: Mapping[str, Any]) -> str:
    if row["low_pct"] is not None:
        of_step = " of step" if row["percent_of"] == "step" else ""
        return f"{format_percent(row['low_pct'])} to {format_percent(row['high_pct'])}{of_step}"
    if row["change_pct"] is None or not row["base_ns"]:
        return ""
    return format_percent(100 * row["delta_ns"] / row["base_ns"])


def _print_cause_table(cells: list[list[str]], verdicts: Sequence[str | None]) -> None:
    """Prints the causes, and below a line their sum, which is the last row."""
    for number, line in enumerate(_aligned(cells, left=(1, 4))):
        delta, cause, base, new, counts, change, _ = line
        if number == len(cells) - 1:
            click.echo(f"  {'─' * places(delta)}")
        colored = click.style(cells[number][-1], fg=_COLOURS.get(verdicts[number] or ""))
        text = f"{delta}  {cause}  {base} → {new}  {counts}  {change}"
        click.echo(f"  {text}  {colored}".rstrip())


def _print_kernels(
    scope: str, changed: dict[tuple[str, str], KernelChange], metrics: set[str], *, details: bool
) -> None:
    """Prints the kernels of the printed roles that were replaced by others."""
    roles = {role for metric in metrics for role in metric.split("+")}
    roles_by_change: dict[str, list[str]] = {}
    for (of_scope, role), change in changed.items():
        if of_scope == scope and (details or role in roles):
            roles_by_change.setdefault(_format_kernel_change(change), []).append(role)
    for text, of_roles in roles_by_change.items():
        print_text(one_line(f"{', '.join(of_roles)}: {text}"), before="  ", hanging="  ")


def _format_kernel_change(change: KernelChange) -> str:
    gone, came = _format_kernels(change.gone), _format_kernels(change.came)
    return f"{gone} → {came}" if gone and came else f"no longer {gone}" if gone else f"also {came}"


def _format_kernels(uses: Sequence[KernelUse]) -> str:
    width = max(24, terminal_width() // 3)
    kernels = dict.fromkeys(
        without_middle(use.name if places(use.name) <= width else short_name(use.name), width)
        for use in uses
    )
    more = " + ..." if len(kernels) > _MAX_KERNELS else ""
    return " + ".join([*kernels][:_MAX_KERNELS]) + more


def _print_recording(comparison: Comparison) -> None:
    """Prints how the length of the recordings changed: other work, or other speed."""
    recorded = {row["side"]: row["ns"] for row in comparison.table(_RECORDED)}
    parts = {row["change"]: row["ns"] for row in comparison.table(_TOTAL)}
    texts = [
        f"{format_time_change(ns)} {text}"
        for change, text in _RECORDING_PARTS.items()
        if (ns := parts.get(change))
    ]
    if len(recorded) < 2 or not texts:
        return
    base, new = recorded["base"], recorded["new"]
    print_text(
        f"Recording: {format_time(base)} → {format_time(new)} "
        f"({format_time_change(new - base)}): {', '.join(texts)}."
    )
