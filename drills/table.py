"""The table that a drill prints."""

import os
from collections import Counter, defaultdict
from collections.abc import Iterable

from drills.kind import Case
from drills.outcome import LOSS_TOLD, Outcome, Verdict


def text(found: Iterable[tuple[Case, Outcome]]) -> str:
    """One row per kind, as Markdown: how many cases were tried, and how many had each verdict."""
    verdicts: defaultdict[str, Counter[Verdict]] = defaultdict(Counter)
    told = 0
    for case, outcome in found:
        verdicts[case.kind][outcome.verdict] += 1
        told += outcome.reason == LOSS_TOLD
    total = sum(verdicts.values(), Counter())
    heads = ["kind", "tried", *Verdict]
    lines = [heads, ["---", *("---:" for _ in heads[1:])]]
    for kind, counts in [*sorted(verdicts.items()), ("all", total)]:
        numbers = (counts.total(), *(counts[verdict] for verdict in Verdict))
        lines.append([kind, *(f"{number:,}" for number in numbers)])
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{rows}\n\nOf the right ones, {told:,} say in their ledger that something was lost."


def processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
