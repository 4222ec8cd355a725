"""Kernel names without what differs between builds, sizes and devices."""

import re

_TEMPLATE = re.compile(r"<[^<>]*>")
_ARGUMENTS = re.compile(r"\([^()]*\)")
# Sizes of tiles and stages, as 128x64x32, and what is behind them in the name.
_TILES = re.compile(r"_?\d+x\d+(x\d+)*(_\d+x\d+(x\d+)*)*")
# The tiling of a Tensile kernel of AMD.
_TENSILE = re.compile(r"^(Cijk_[A-Za-z]+_[A-Za-z]+)_.*")
_NUMBER = re.compile(r"(_\d+)+(?=_|$)")
_VALUE = re.compile(r"\d+|true|false|int|bool|float|unsigned int|\S*bfloat16|c10::\w+")
_RETURNED = re.compile(r"^(void|int|bool|float)\s+")


def stem(name: str) -> str:
    """The name without template arguments, tile sizes and numbers.

    Two kernels of the same stem may do different things: an Inductor kernel is numbered by its
    graph. A stem only tells what may be the same kernel where no role does.
    """
    text = _RETURNED.sub("", name)
    for pattern in (_TEMPLATE, _ARGUMENTS):
        previous = ""
        while previous != text:
            previous, text = text, pattern.sub("", text)
    text = _TENSILE.sub(r"\1", text)
    text = _NUMBER.sub("", _TILES.sub("", text))
    return text.strip(" _") or name


def short(name: str) -> str:
    """The name for people: without arguments, and with the names of its template arguments alone.

    `void cutlass::device_kernel<flash::Fwd<float, 4>, 2>(Params)` is
    `cutlass::device_kernel<flash::Fwd>`: the outer name alone says nothing.
    """
    text = _RETURNED.sub("", name)
    previous = ""
    while previous != text:
        previous, text = text, _ARGUMENTS.sub("", text)
    outer, depth, kept = "", 0, ""
    for letter in text:
        depth += letter == "<"
        if depth == 0:
            outer += letter
        elif depth == 1 and letter not in "<>":
            kept += letter
        depth -= letter == ">"
    parts = [part.strip() for part in kept.split(",")]
    named = [part for part in parts if part and not _VALUE.fullmatch(part)]
    return f"{outer.strip()}<{', '.join(named)}>" if named else outer.strip() or name
