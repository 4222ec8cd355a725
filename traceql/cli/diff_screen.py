"""The answer of a comparison on one screen."""

from collections.abc import Iterator, Sequence
from typing import Any

import click

from traceql.cli.console import print_text, terminal_width
from traceql.result.text_table.texts import places, without_middle
from traceql.runs.compare.changes import HAS_WAIT
from traceql.runs.compare.comparison import Comparison
from traceql.runs.compare.document import KernelChange, Use, kernel_changes
from traceql.runs.compare.python_tables import short
from traceql.runs.compare.sentences import (
    MARKS,
    answers,
    cause_name,
    layers,
    names,
    roots,
    signed,
    signed_time,
    time,
)
from traceql.runs.compare.setup import Difference, Effect
from traceql.runs.compare.verdict import Verdict
from traceql.util.printable import one_line

_MOST_CAUSES, _MOST_LARGE = 10, 6  # lines of causes; the largest of them, real or not
_MOST_KERNELS = 3
_MOST_OF_A_KIND = 3  # differences of one kind in a line
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


def write_screen(comparison: Comparison, *, details: bool) -> None:
    """Prints the answer, the set-up, the numbers, and where the difference comes from.

    Args:
        details: whether everything is shown, however long it gets.
    """
    for answer in answers(comparison):
        print_text(one_line(answer.text), before=f"{MARKS[answer.verdict]} ", bold=True)
    _write_sides(comparison)
    _write_setup(comparison.differences, details=details)
    if not comparison.same_recordings:
        _write_numbers(comparison)
    _write_coverage(comparison, details=details)
    changed = kernel_changes(comparison)
    scopes = comparison.scopes if details else comparison.scopes[:1]
    for scope in () if comparison.same_recordings else scopes:
        _write_causes(comparison, scope, changed, details=details)
    _write_total(comparison)
    click.echo()
    print_text(
        "--details shows every cause, layer and kernel; --query list names more tables; --report "
        "diff.html writes a page.",
        err=True,
    )


def _write_sides(comparison: Comparison) -> None:
    click.echo()
    for side, runs in (("base", comparison.base), ("new ", comparison.new)):
        places_of = [one_line(run.name) for run in runs]
        shown = places_of[0] if len(runs) == 1 else f"{places_of[0]} to {places_of[-1]}"
        count = "1 run: " if len(runs) == 1 else f"{len(runs)} runs: "
        click.echo(without_middle(f"{side}  {count}{shown}", terminal_width()))


def _write_setup(differences: Sequence[Difference], *, details: bool) -> None:
    shown = [one for one in differences if details or one.effect is not Effect.FOLLOWS]
    following = len(differences) - len(shown)
    click.echo()
    if not shown:
        click.echo("No difference of set-up is known.")
        return
    click.echo("Differences of set-up:")
    kinds: dict[tuple[Effect, str, str], list[Difference]] = {}
    for one in shown:
        kinds.setdefault((one.effect, one.title, one.reason), []).append(one)
    for (effect, title, reason), same in kinds.items():
        limit = len(same) if details else _MOST_OF_A_KIND
        changed = [f"{one.name} {names(one.base)} → {names(one.new)}" for one in same[:limit]]
        changed += [f"and {len(same) - limit} more"] if len(same) > limit else []
        forbids = "; forbids a verdict" if effect is Effect.FORBIDS else ""
        why = f": {reason}" if effect is Effect.FORBIDS else f"; {reason}" if reason else ""
        text = f"{title}: {', '.join(changed)}{forbids}{why}"
        print_text(one_line(text), before=f"  {_MARKS[effect]} ")
    if following:
        click.echo(f"    and {following} settings derived by the engine (--details)")


def _write_numbers(comparison: Comparison) -> None:
    rows = sorted(comparison.table(_HEADLINES), key=lambda row: _place(comparison, row))
    if not rows:
        return
    has_interval = any(row["low_pct"] is not None for row in rows)
    title = ["", "base", "new", "change", "95% interval" if has_interval else "spread", "verdict"]
    cells = [
        [
            comparison.terminology(_name(row)),
            _value(row, "base"),
            _value(row, "new"),
            signed(row["change_pct"]),
            _certainty(row, has_interval=has_interval),
            _verdict(row),
        ]
        for row in rows
    ]
    click.echo()
    _write_table([title, *cells], [row["verdict"] for row in rows])
    if has_interval:
        text = "base and new: the median run; change: the median of all pairs of a run of each side"
        print_text(text, before=" ")
    if any(row["reason"] == HAS_WAIT for row in rows):
        text = (
            "not comparable: the work of the GPU includes waiting for ranks that are not loaded; "
            "load the traces of all ranks to tell it apart"
        )
        print_text(comparison.terminology(text), before=" ")


def _place(comparison: Comparison, row: dict[str, Any]) -> tuple[int, int]:
    scope = row["scope"]
    order = list(_NAMES)
    return (
        len(comparison.scopes) if scope is None else comparison.scopes.index(scope),
        order.index(row["metric"]),
    )


def _name(row: dict[str, Any]) -> str:
    return _NAMES[row["metric"]].format("" if row["scope"] == "unknown" else row["scope"]).strip()


def _value(row: dict[str, Any], side: str) -> str:
    return f"{row[side]:,.0f}" if row["unit"] == "tokens/s" else time(row[side])


def _certainty(row: dict[str, Any], *, has_interval: bool) -> str:
    if row["low_pct"] is not None:
        return f"{signed(row['low_pct'])} to {signed(row['high_pct'])}"
    if has_interval:
        return ""
    if row["base_spread_pct"] is not None and row["new_spread_pct"] is not None:
        return f"runs {row['base_spread_pct']:.1f}%, {row['new_spread_pct']:.1f}%"
    noise = row["step_noise_pct"]
    return "" if noise is None else f"steps ±{noise:.1f}%"


def _verdict(row: dict[str, Any]) -> str:
    if row["verdict"] == Verdict.INCONCLUSIVE:
        runs = row["runs_needed"]
        return f"inconclusive: {f'{runs} runs a side' if runs else 'over 50 runs'} would do"
    return str(row["verdict"])


def _write_table(lines: Sequence[Sequence[str]], verdicts: Sequence[str]) -> None:
    """Prints a title and rows; all columns but the first and the last are numbers."""
    rooms = [max(places(line[column]) for line in lines) for column in range(len(lines[0]))]
    for number, line in enumerate(lines):
        cells = [
            _filled(cell, room, left=column in (0, len(rooms) - 1))
            for column, (cell, room) in enumerate(zip(line, rooms, strict=True))
        ]
        text = "   ".join(cells[:-1])
        if number == 0:
            click.secho(f" {text}   {cells[-1]}".rstrip(), bold=True)
            click.echo(f" {'─' * (sum(rooms) + 3 * (len(rooms) - 1))}")
        else:
            colour = _COLOURS.get(verdicts[number - 1])
            click.echo(f" {text}   {click.style(line[-1], fg=colour)}".rstrip())


def _filled(cell: str, room: int, *, left: bool) -> str:
    blanks = " " * (room - places(cell))
    return cell + blanks if left else blanks + cell


def _write_coverage(comparison: Comparison, *, details: bool) -> None:
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
    if details:
        for row in strata:
            used = "" if row["is_compared"] else "   not compared"
            steps = f"{row['base_steps'] or 0} → {row['new_steps'] or 0} steps"
            print_text(f"{row['stratum']}: {steps}{_tokens(row)}{used}", before="  ")


def _tokens(row: dict[str, Any]) -> str:
    if row["base_tokens"] is None or row["new_tokens"] is None:
        return ""
    return f", {row['base_tokens']:,.0f} → {row['new_tokens']:,.0f} tokens each"


def _write_causes(
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
        f"Where the {signed_time(new - base)} of a {name} come from "
        f"({comparison.terminology('mean of the GPUs')}):",
        bold=True,
    )
    shown, rest = _shown(rows, details=details)
    cells = [
        [
            signed_time(row["delta_ns"]),
            cause_name(row),
            time(row["base_ns"]),
            time(row["new_ns"]),
            _counts(row),
            _interval(row),
            str(row["verdict"] or ""),
        ]
        for row in shown
    ]
    if rest:
        sums = [sum(row[column] for row in rest) for column in ("delta_ns", "base_ns", "new_ns")]
        cells.append(
            [signed_time(sums[0]), f"{len(rest)} others", time(sums[1]), time(sums[2]), "", "", ""]
        )
    cells.append([signed_time(new - base), name, time(base), time(new), "", "", ""])
    _write_aligned(cells, [*(row["verdict"] for row in shown), *[None] * (len(cells) - len(shown))])
    _write_kernels(scope, changed, {row["metric"] for row in shown}, details=details)
    for text in (layers(comparison, scope), *roots(comparison, scope)):
        if text:
            print_text(one_line(text), before="  ")


def _shown(
    rows: list[dict[str, Any]], *, details: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows that are shown, and the others; what is no cause comes last."""
    ordered = sorted(rows, key=lambda row: row["kind"] == "spread")
    if details or len(ordered) <= _MOST_CAUSES + 1:
        return ordered, []
    largest = sorted(ordered, key=lambda row: -abs(row["delta_ns"]))[:_MOST_LARGE]
    real = [row for row in ordered if row["verdict"] in _COLOURS and row not in largest]
    kept = largest + real[: _MOST_CAUSES - _MOST_LARGE]
    shown = [row for row in ordered if row in kept]
    return shown, [row for row in ordered if row not in kept]


def _counts(row: dict[str, Any]) -> str:
    base, new = row["base_kernels"], row["new_kernels"]
    if base is None or new is None or row["kind"] not in ("computing", "transfer", "communication"):
        return ""
    if round(base) == round(new):
        return f"{base:,.0f} kernel{'' if round(base) == 1 else 's'}"
    return f"{base:,.0f} → {new:,.0f} kernels"


def _interval(row: dict[str, Any]) -> str:
    if row["low_pct"] is None:
        return (
            ""
            if row["change_pct"] is None or not row["base_ns"]
            else signed(100 * row["delta_ns"] / row["base_ns"])
        )
    of_step = " of step" if row["percent_of"] == "step" else ""
    return f"{signed(row['low_pct'])} to {signed(row['high_pct'])}{of_step}"


def _write_aligned(cells: list[list[str]], verdicts: Sequence[str | None]) -> None:
    rooms = [max(places(line[column]) for line in cells) for column in range(len(cells[0]))]
    for number, (line, verdict) in enumerate(zip(cells, verdicts, strict=True)):
        delta, cause, base, new, counts, change, said = line
        text = "  ".join(
            (
                _filled(delta, rooms[0], left=False),
                _filled(cause, rooms[1], left=True),
                f"{_filled(base, rooms[2], left=False)} → {_filled(new, rooms[3], left=False)}",
                _filled(counts, rooms[4], left=True),
                _filled(change, rooms[5], left=False),
            )
        )
        if number == len(cells) - 1:
            click.echo(f"  {'─' * rooms[0]}")
        click.echo(f"  {text}  {click.style(said, fg=_COLOURS.get(verdict or ''))}".rstrip())


def _write_kernels(
    scope: str,
    changed: dict[tuple[str, str], KernelChange],
    metrics: set[str],
    *,
    details: bool,
) -> None:
    """Says which kernels became which, of the roles that are shown."""
    roles = {role for metric in metrics for role in metric.split("+")}
    told: dict[str, list[str]] = {}
    for (of_scope, role), change in changed.items():
        if of_scope == scope and (details or role in roles):
            told.setdefault(_became(change), []).append(role)
    for text, of_roles in told.items():
        print_text(one_line(f"{', '.join(of_roles)}: {text}"), before="  ", hanging="  ")


def _became(change: KernelChange) -> str:
    if not change.gone:
        return f"also {_kernels(change.came)}"
    if not change.came:
        return f"no longer {_kernels(change.gone)}"
    return f"{_kernels(change.gone)} → {_kernels(change.came)}"


def _kernels(uses: Sequence[Use]) -> str:
    room = max(24, terminal_width() // 3)
    told = list(dict.fromkeys(_short(use.name, room) for use in uses))
    return " + ".join(told[:_MOST_KERNELS]) + (" + ..." if len(told) > _MOST_KERNELS else "")


def _short(name: str, room: int) -> str:
    return without_middle(name if places(name) <= room else short(name), room)


def _write_total(comparison: Comparison) -> None:
    """Says how the length of the recordings changed: other work, or other speed."""
    recorded = {row["side"]: row["ns"] for row in comparison.table(_RECORDED)}
    if len(recorded) < 2:
        return
    parts = {row["change"]: row["ns"] for row in comparison.table(_TOTAL)}
    told = list(_parts(parts))
    if not told:
        return
    print_text(
        f"Recording: {time(recorded['base'])} → {time(recorded['new'])} "
        f"({signed_time(recorded['new'] - recorded['base'])}): {', '.join(told)}."
    )


def _parts(parts: dict[str, int]) -> Iterator[str]:
    texts = {
        "speed": "from the speed of steps",
        "work": "from more or fewer steps",
        "only one side": "from kinds of steps that one side lacks",
        "outside": "outside steps",
    }
    for change, text in texts.items():
        if ns := parts.get(change):
            yield f"{signed_time(ns)} {text}"
