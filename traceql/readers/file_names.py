"""What the names of trace files state: ranks, places in the parallelism, and processes."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

# A number with more digits is not a rank; it may be a time.
_RANK = re.compile(r"(?<![a-z])(?<!local[_\-.])rank[_\-.=]?([0-9]{1,9})(?![0-9])", re.IGNORECASE)
_PLACE = re.compile(r"(?:^|[_\-.])(tp|pp|dp|ep)[_\-]?([0-9]{1,9})(?=[_\-.]|$)", re.IGNORECASE)
# The names of SGLang: the profile, then the ranks, and the stage where each has its own file.
_SGLANG = re.compile(r".+-TP-[0-9]+(-(DP|PP|EP)-[0-9]+)*(-[A-Za-z]+)?\.trace\.json(\.gz)?$")
# tensorboard_trace_handler: host, process, perhaps the part of the program, and time.
_PROCESS = re.compile(r"^(.+)_([0-9]+)\.(?:[A-Za-z_]+\.)?[0-9]+\.pt\.trace\.json(\.gz)?$")
_FRONT_END = re.compile(
    r"(?<![a-z])(async_?llm|front_?-?end|api_?-?server|http_?-?server|(de)?tokenizer(_?manager)?|router|gateway)(?![a-z])",
    re.IGNORECASE,
)
_NUMBER = re.compile("[0-9]+")


def rank_in_name(file: Path) -> int | None:
    """The rank that a name states: `rank0.json`, `nccl-rank=3.json`."""
    found = _RANK.search(file.name)
    return int(found[1]) if found else None


def places_in_name(file: Path) -> dict[str, int]:
    """The ranks in each kind of parallelism that a name states, by tp, pp, dp and ep."""
    return {kind.lower(): int(number) for kind, number in _PLACE.findall(file.name)}


def process_in_name(file: Path) -> tuple[str, int] | None:
    """The host and the process in a name of tensorboard_trace_handler."""
    found = _PROCESS.match(file.name)
    return (found[1], int(found[2])) if found else None


def is_front_end(file: Path) -> bool:
    """Whether a name is that of the front end of a serving engine, which runs no model."""
    return _FRONT_END.search(file.name) is not None


def in_order(file: Path) -> list[tuple[int, str]]:
    """A key that sorts names with the numbers in them as numbers."""
    parts = re.split("([0-9]+)", str(file))
    return [(int(part), part) if part.isdecimal() else (-1, part) for part in parts]


def ranks_by_place(files: Sequence[Path]) -> dict[Path, int]:
    """The rank of each file, where the places in the names give it beyond doubt; else empty.

    That is one number that differs, or a complete grid of places in the order of vLLM and SGLang:
    rank = (dp x pp_size + pp) x tp_size + tp. Under data-parallel attention, and for experts, the
    other numbers only repeat what follows from tp.
    """
    if len(files) < 2:
        return {file: places_in_name(file)["tp"] for file in files if _is_alone_at_place(file)}
    places = {file: places_in_name(file) for file in files}
    kinds = set.intersection(*(set(one) for one in places.values()))
    differing = [
        kind
        for kind in ("dp", "pp", "tp", "ep")
        if kind in kinds and len(_values(places, kind)) > 1
    ]
    if not differing:
        return {}
    found = None
    if len(differing) == 1:
        found = {file: one[differing[0]] for file, one in places.items()}
    elif "tp" in differing and "pp" not in differing and _follow_from_tp(places, differing):
        found = {file: one["tp"] for file, one in places.items()}
    elif len(set(differing) - {"ep"}) < 3 or all(_has_order_of_engines(file) for file in files):
        found = _ranks_in_grid(places, [kind for kind in differing if kind != "ep"])
    return found if found and len(set(found.values())) == len(files) else {}


def _is_alone_at_place(file: Path) -> bool:
    """Whether one file has its rank in its name: SGLang's only number is that of tp."""
    places = places_in_name(file)
    return bool(_SGLANG.match(file.name)) and places.keys() <= {"tp", "ep"}


def _values(places: Mapping[Path, Mapping[str, int]], kind: str) -> set[int]:
    return {one[kind] for one in places.values()}


def _follow_from_tp(places: Mapping[Path, Mapping[str, int]], kinds: Sequence[str]) -> bool:
    """Whether all ranks of tp are there once, and the other numbers grow with them."""
    rows = sorted([one[kind] for kind in ("tp", *kinds)] for one in places.values())
    is_complete = [row[0] for row in rows] == list(range(len(rows)))
    return is_complete and all(list(column) == sorted(column) for column in zip(*rows, strict=True))


def _has_order_of_engines(file: Path) -> bool:
    kinds = [kind for kind, _ in _PLACE.findall(file.name)]
    return bool(_SGLANG.match(file.name)) or kinds[:3] == ["dp", "pp", "tp"]


def _ranks_in_grid(
    places: Mapping[Path, Mapping[str, int]], kinds: Sequence[str]
) -> dict[Path, int] | None:
    """The ranks, if the places are all those of a grid; the last kind varies fastest."""
    sizes = [1 + max(_values(places, kind)) for kind in kinds]
    if prod(sizes) != len(places):
        return None
    found = dict.fromkeys(places, 0)
    for kind, size in zip(kinds, sizes, strict=True):
        for file, one in places.items():
            found[file] = found[file] * size + one[kind]
    return found


# Words before a number that counts something else than ranks, and words before a rank.
_COUNTED = {
    *("batch", "cycle", "epoch", "it", "iter", "iteration", "iterations", "pass", "pid", "rep"),
    *("repeat", "run", "seed", "step", "steps", "t", "time", "try", "ts", "v", "version", "window"),
}
_RANKED = {
    *("card", "core", "cuda", "device", "dev", "engine", "gpu", "local", "npu", "proc", "process"),
    *("profile", "r", "shard", "trace", "worker", "xpu"),
}
_MOST_RANKS = 100_000


def ranks_by_number(files: Sequence[Path]) -> dict[Path, int]:
    """The ranks of files whose names, with their folders, differ in one number alone.

    It is the rank if the numbers begin at 0, or if a word such as profile or gpu is before it and
    they do not simply count from 1.
    """
    alike: dict[str, list[Path]] = defaultdict(list)
    for file in files:
        alike[_NUMBER.sub("0", f"{file.parent.name}/{file.name}")].append(file)
    return {
        file: number
        for same in alike.values()
        if len(same) > 1
        for file, number in _numbered(same).items()
    }


def _numbered(files: Sequence[Path]) -> dict[Path, int]:
    names = [f"{file.parent.name}/{file.name}" for file in files]
    columns = list(zip(*map(_NUMBER.findall, names), strict=True))
    differing = [place for place, column in enumerate(columns) if len(set(column)) > 1]
    if len(differing) != 1:
        return {}
    (place,) = differing
    numbers = [int(number) if len(number) < 10 else _MOST_RANKS for number in columns[place]]
    at = [found.start() for found in _NUMBER.finditer(names[0])][place]
    words = re.findall("[a-z]+", names[0][:at].lower())
    word = words[-1] if words else ""
    counts = sorted(numbers) == list(range(1, 1 + len(numbers)))
    is_rank = word not in _COUNTED and (0 in numbers or (word in _RANKED and not counts))
    if not is_rank or max(numbers) >= _MOST_RANKS or len(set(numbers)) < len(numbers):
        return {}
    return dict(zip(files, numbers, strict=True))
