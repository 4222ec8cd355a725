"""Rows for an assistant: unchanged numbers, and no more text than it can read."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from traceql.result import RowStream
from traceql.result.text_table.values import plain, python_rows

BATCH_ROWS = 4_096
MOST_ROWS = 1_000
USUAL_ROWS = 50
_MOST_LETTERS = 40_000  # of all rows together
_LONGEST_TEXT = 1_000  # of one value


@dataclass(frozen=True)
class Part:
    """Which rows of a result to return."""

    first: int = 0
    rows: int = USUAL_ROWS


def part_of(stream: RowStream, part: Part) -> dict[str, Any]:
    """The columns, some rows as lists, the number of all rows, and where the next part begins.

    All rows are computed, to count them, but only a batch is in memory at once.
    """
    rows: list[list[Any]] = []
    letters = total = cut = 0
    is_full = False
    for batch in stream:
        start = max(0, part.first - total)
        total += batch.num_rows
        for row in python_rows(batch.slice(start, part.rows - len(rows))) if not is_full else ():
            values, shortened = _bounded(row.values())
            letters += len(json.dumps(values, default=str, ensure_ascii=False))
            is_full = bool(rows) and letters > _MOST_LETTERS
            if is_full:
                break
            rows.append(values)
            cut += shortened
    answer: dict[str, Any] = {"total_rows": total}
    if (after := part.first + len(rows)) < total:
        answer["next_offset"] = after
    if cut:
        answer["shortened"] = (
            f"{cut} values of more than {_LONGEST_TEXT:,} letters end in …; "
            "sql with substr() gives the rest"
        )
    return answer | {"columns": stream.schema.names, "rows": rows}


def _bounded(values: Iterable[Any]) -> tuple[list[Any], int]:
    """The values as JSON has them, and how many of them were shortened."""
    kept = [plain(value) for value in values]
    cut = 0
    for at, value in enumerate(kept):
        if isinstance(value, int | float | None):
            continue
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        if len(text) > _LONGEST_TEXT:
            kept[at] = text[: _LONGEST_TEXT - 1] + "…"
            cut += 1
    return kept, cut
