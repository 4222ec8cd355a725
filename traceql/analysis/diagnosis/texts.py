"""What a finding says: the same words on the screen, in the report, notebook and Perfetto."""

from collections.abc import Iterable, Mapping
from shlex import quote
from typing import Any

UNEXPLAINED_PCT = 30  # of the lost time: from there on, what is known of it is said


def query_command(finding: Mapping[str, Any], database: str) -> str:
    """The command for a row of overview.findings: `traceql run comm.stragglers DB --rank 3`.

    Args:
        database: as a shell reads it, perhaps with options.
    """
    options = "".join(
        f" --{name} {quote(value)}" for name, value in dict(finding["parameters"]).items()
    )
    return f"traceql run {finding['query']} {database}{options}"


def saving(finding: Mapping[str, Any]) -> str | None:
    """What ending the cause saves: `5.9 ms a step (55%), between 5.2 and 6.6`; None if unknown."""
    if finding["saving_ns"] is not None:
        low, high = finding["saving_low_ns"], finding["saving_high_ns"]
        text = f"{milliseconds(finding['saving_ns'])} a step ({finding['saving_pct']:.0f}%)"
        if milliseconds(low) == milliseconds(high):
            return text
        return f"{text}, between {milliseconds(low)} and {milliseconds(high)}"
    if finding["gain_pct"] is not None:
        return f"{finding['gain_pct']:.0f}% more tokens a second"
    return None


def milliseconds(ns: float) -> str:
    """A duration with about three digits."""
    ms = ns / 1e6
    return f"{ms:,.0f} ms" if ms >= 100 else f"{ms:.1f} ms" if ms >= 1 else f"{ms:.2f} ms"


def explained(summary: Mapping[str, Any]) -> str | None:
    """`The findings explain 82% of 12.4 ms lost per step (83% of a step); 18% has no known cause.`

    Args:
        summary: a row of overview.lost.
    """
    lost_ns, share = summary["lost_ns"], summary["explained_pct"]
    if not lost_ns or share is None:
        return None
    lost_pct = 100 * lost_ns / summary["step_ns"]
    how = "" if summary["is_unprofiled"] else ", as recorded with the profiler"
    of_step = f"{milliseconds(lost_ns)} lost per step ({lost_pct:.0f}% of a step{how})"
    rest = 100 - round(share)
    text = f"The findings explain {share:.0f}% of {of_step}"
    if rest == 100:
        text = f"No finding explains the {of_step}"
    elif rest:
        text += f"; {rest}% has no known cause"
    if rest < UNEXPLAINED_PCT:
        return f"{text}."
    reasons = ", ".join(summary["reasons"])
    return f"{text}. Lost time by reason: {reasons} (time.lost); info --all lists what to record."


def fine(facts: Iterable[str]) -> str | None:
    """`Fine: clocks (1,965 of 1,980 MHz), equal hosts.`; None without facts."""
    listed = ", ".join(facts)
    return f"Fine: {listed}." if listed else None


def nothing_found(is_timeline: bool) -> str:
    """Why there are no findings.

    Args:
        is_timeline: whether the run has a trace, not profiles alone.
    """
    if is_timeline:
        return "no cause is confirmed (traceql info --all lists each with its reason)"
    return (
        "they need a timeline: load a trace of the same program with the profile "
        "(traceql load TRACE PROFILE)"
    )
