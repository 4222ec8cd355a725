"""Counts the events of a file by kind and category, by another way than the tables are filled.

The category of each event comes from its decoded arguments, row by row. Here the arguments are
searched as text, and the events are added up by track, name and what was found.
"""

from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.dialects.ascend.vocabulary import Argument, Category
from traceql.readers.formats.ascend.events import AscendEvents, category_of
from traceql.readers.phases import COMPLETE
from traceql.readers.tables import COUNT

_FOUND = "found"
_PATTERN = rf'"(?:{Argument.TASK_TYPE}|{Argument.LEVEL})"\s*:\s*"(?P<{_FOUND}>[^"]*)"'


def count_table(events: AscendEvents, side_samples: int) -> pa.Table:
    """The table `COUNT` of the reader's contract.

    Args:
        side_samples: the number of samples in the files beside the trace.
    """
    columns = events.parsed.columns
    slices = columns.slices
    found = pc.struct_field(pc.extract_regex(slices.args.storage, _PATTERN), _FOUND)
    rows = pa.table(
        {
            "track": pa.array(events.parsed.slices.track),
            "cat": slices.cat.indices,
            "name": slices.name.indices,
            "found": found,
            "dur": slices.counted_dur,
        }
    )
    # Those that are only how an operation was carried out are found by their times alone.
    carried_out = set(events.carried_out.tolist())
    if carried_out:
        kept = pa.array([i not in carried_out for i in range(rows.num_rows)])
        moved, rows = rows.filter(pc.invert(kept)), rows.filter(kept)
    totals: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    groups = rows.group_by(["track", "cat", "name", "found"]).aggregate(
        [("dur", "count"), ("dur", "sum")]
    )
    cats, names = slices.cat.dictionary.to_pylist(), slices.name.dictionary.to_pylist()
    for group in groups.to_pylist():
        category = category_of(
            events.tracks[group["track"]],
            str(cats[group["cat"]] or ""),
            str(names[group["name"]] or ""),
            group["found"] or "",
        )
        totals[category.value][0] += group["dur_count"]
        totals[category.value][1] += group["dur_sum"]
    if carried_out:
        totals[Category.TASK][0] += moved.num_rows
        totals[Category.TASK][1] += pc.sum(moved["dur"]).as_py()
    counted = [
        {"phase": "slice", "cat": cat, "events": n, "dur": dur} for cat, (n, dur) in totals.items()
    ]
    counted += [
        {"phase": phase, "cat": "", "events": n, "dur": 0}
        for phase, n in columns.phases.items()
        if phase != COMPLETE
    ]
    if samples := events.counters.count() + side_samples:
        counted.append({"phase": "counter", "cat": "", "events": samples, "dur": 0})
    return pa.Table.from_pylist(counted, COUNT)
