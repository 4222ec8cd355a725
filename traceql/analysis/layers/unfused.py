"""Finds norms that run as several elementwise kernels, as in eager mode without a fused norm.

Such a norm converts to float32, adds the residual or one to the weight, squares, takes the mean,
adds epsilon, takes the reciprocal square root, multiplies by it and by the weight, and converts
back. It counts as one norm: its first kernel stands for it, the others continue it.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

# Kernels of PyTorch by the part of a norm that they can be; the first pattern that matches counts.
_PARTS = (
    ("r", re.compile(r"rsqrt_kernel")),
    ("m", re.compile(r"MeanOps")),
    ("p", re.compile(r"pow_tensor_scalar|square_kernel")),
    ("a", re.compile(r"CUDAFunctor(OnSelf)?_add<float>")),
    ("x", re.compile(r"MulFunctor")),
    ("c", re.compile(r"copy_kernel")),
)
# One part may be an unclassified kernel (o), but no copy or sum, which may be outside the norm.
_NORM = re.compile("(?P<lead>[ca]*)(?:pma?r|oma?r|poa?r|pma?o|pmor)(?:x+|o{1,2})c?x?")
_UNKNOWN = "o"
_NEEDED = re.compile("[pmr]")  # every norm has one of these parts
_RUN = re.compile(f"[^-]*{_NEEDED.pattern}[^-]*")  # kernels in a row that may be norms
CONTINUED = "."  # stands for every kernel of such a norm but its first one
# A run may be a damaged one if it occurs less often than this, and much less often than another.
_OFTEN = 3
_MUCH_LESS = 1 / 4


def part(name: str) -> str:
    """The letter of the part of a norm that a kernel of this name can be; `-` if it is none."""
    return next((letter for letter, pattern in _PARTS if pattern.search(name)), "-")


def parts_of_norms(names: Iterable[str]) -> Mapping[str, str]:
    """The letter of the part of each name that can be one; none if no norm can be of these."""
    parts = {name: letter for name in names if (letter := part(name)) != "-"}
    return parts if _NEEDED.search("".join(parts.values())) else {}


def folded(letters: str, parts: str, norm: str, unknown: str) -> str:
    """The letters of kernels, in which each norm of several kernels has the letter of a norm.

    Where kernels are missing in norms or others are among them, it is uncertain which of two
    adjacent norms a kernel belongs to. Such norms are unknown kernels.

    Args:
        letters: one letter per kernel.
        parts: for each kernel, the letter of `part`; `-` for all that are not elementwise.
        norm: the letter of a norm.
        unknown: the letter of an unclassified kernel.
    """
    if not _NEEDED.search(parts):
        return letters
    if unknown in letters:
        kernels = zip(letters, parts, strict=True)
        parts = "".join(_UNKNOWN if kernel == unknown else part for kernel, part in kernels)
    runs = Counter(_RUN.findall(parts))
    if not runs:
        return letters
    frequent = _frequent(runs)
    leads = {found["lead"] for run in frequent for found in _NORM.finditer(run)}
    pieces: list[str] = []
    end = 0
    for run in _RUN.finditer(parts):
        pieces.append(letters[end : run.start()])
        end = run.end()
        text = letters[run.start() : end]
        whole = len(text) if run[0] in frequent else _surely_norm(run[0], leads)
        begin = len(text) - whole
        pieces += [unknown * begin, _with_norms(text[begin:], run[0][begin:], norm)]
    return "".join([*pieces, letters[end:]])


def expanded(text: str, roles: Sequence[str | None]) -> tuple[str | None, ...]:
    """The role of each kernel of a text, from those of its kernels that continue no norm."""
    given = iter(roles)
    found: list[str | None] = []
    for kernel in text:
        found.append(found[-1] if kernel == CONTINUED and found else next(given, None))
    return tuple(found)


def _frequent(runs: Mapping[str, int]) -> Collection[str]:
    """The runs that occur so often that they are no damage."""
    enough = max(runs.values()) * _MUCH_LESS
    return {run for run, count in runs.items() if count > enough or count >= _OFTEN}


def _surely_norm(run: str, leads: Collection[str]) -> int:
    """The number of kernels of a rare run, from its end, that surely are a norm and what follows.

    They are if the run has one norm. Copies and sums before it may be something else, unless norms
    of frequent runs begin with the same ones.
    """
    found = _NORM.search(run)
    if not found or _NEEDED.search(run[: found.start()] + run[found.end() :]):
        return 0
    begin = found.start() if found["lead"] in leads else found.end("lead")
    return len(run) - begin


def _with_norms(text: str, parts: str, norm: str) -> str:
    """The letters of a run, in which each norm is one kernel and what continues it."""
    return "".join(
        norm + CONTINUED * (len(piece) - 1) if is_norm else piece
        for piece, is_norm in _pieces(text, parts)
    )


def _pieces(text: str, parts: str) -> Iterator[tuple[str, bool]]:
    """A run in pieces, and whether each is a norm."""
    end = 0
    for found in _NORM.finditer(parts):
        yield text[end : found.start()], False
        yield text[found.start() : found.end()], True
        end = found.end()
    yield text[end:], False
