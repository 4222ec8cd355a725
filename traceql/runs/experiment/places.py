"""Which folders of results paths name, and what their experiments are called."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from traceql.errors import TraceqlError


def distinct_names(named: Sequence[tuple[str, str]]) -> list[str]:
    """A name for each experiment that no other one has.

    Args:
        named: for each its name, and that of its folder, which tells experiments of a name apart;
            where it does not, they are counted.
    """
    times = Counter(name for name, _ in named)
    told = [
        name if times[name] == 1 or name == folder else f"{name} ({folder})"
        for name, folder in named
    ]
    taken, found = set[str](), list[str]()
    for name in told:
        number, own = 1, name
        while own in taken or (number > 1 and own in told):
            number += 1
            own = f"{name} {number}"
        taken.add(own)
        found.append(own)
    return found


def results_folders(paths: Sequence[Path]) -> list[Path]:
    """The folders of results that paths name: each is one, or holds several.

    Raises:
        TraceqlError: a path does not exist, or holds none.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            what = "is not a folder of results" if path.exists() else "does not exist"
            raise TraceqlError(
                f"{path} {what}; name what traceql experiment run has written with -o"
            )
        inside = sorted(one.parent for one in path.glob("*/plan.json"))
        found += [path] if (path / "plan.json").exists() or not inside else inside
    by_place: dict[Path, Path] = {}
    for one in found:
        by_place.setdefault(one.resolve(), one)
    return list(by_place.values())
