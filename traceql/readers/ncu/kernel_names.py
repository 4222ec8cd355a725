"""Normalized kernel names, for matching launches of Nsight Compute with kernels of a trace.

The demanglers of `ncu` and of trace recorders differ in namespaces (at:: for at::native::), spaces,
parameters (T1 * for float*), lambdas, and constants (1 for true). They agree in the name of the
function, and for many kernels in the template arguments.
"""

import re
from typing import NamedTuple

_UNNAMED = re.compile(r"\(anonymous namespace\)|<unnamed>")
_LAMBDA = re.compile(r"\[lambda(\([^\[\]]*?\)) \(instance (\d+)\)\]")
_CALL = re.compile(r"\boperator ?\(\)")
_BEHIND = re.compile(r"( const| \[clone [^\]]*\])+$")
_NUMBA_ABI = re.compile(r"\[[\w:,=-]*\]$")  # copy[abi:v1,cw51](Array<float>): the function is copy
_LAST_WORD = re.compile(r"[\w$~]+$")
_BEFORE_BRACKET = re.compile(r"([\w$~]+)\s*[<(]")
_NAMESPACE = re.compile(r"\b\w+::")
_CAST = re.compile(r"\([\w:]+\)(?=-?\d)")
_SUFFIX = re.compile(r"(?<=\d)[uUlL]+\b")
_WORDS = re.compile(r"\b(const|void|true|false)\b")
_VALUES = {"const": "", "void": "", "true": "1", "false": "0"}


class KernelName(NamedTuple):
    """The name of the function, and its normalized template arguments, None without any."""

    base: str
    arguments: str | None


def kernel_name(name: str) -> KernelName:
    """The parts of a demangled name."""
    text = _CALL.sub("operator_call", _UNNAMED.sub("unnamed", name))
    text = _BEHIND.sub("", _lambdas(text)).rstrip()
    if text.endswith(")"):
        text = _NUMBA_ABI.sub("", text[: _start(text)].rstrip())
    arguments = None
    if text.endswith(">"):
        start = _start(text)
        text, arguments = text[:start].rstrip(), _plain(text[start + 1 : -1])
    found = _LAST_WORD.search(text)
    if found is None or "(" in _LAST_WORD.sub("", text).split(" ")[-1]:
        return KernelName(_first_function(name), None)
    return KernelName(found[0], arguments)


def _lambdas(text: str) -> str:
    """The text with `[lambda(int) (instance 1)]` as `{lambda(int)#1}`, from the inside out."""
    previous = ""
    while previous != text:
        previous, text = text, _LAMBDA.sub(r"{lambda\1#\2}", text)
    return text


def _start(text: str) -> int:
    """The position of the bracket that the last letter closes; 0 if it is not in the text."""
    parentheses = angles = 0
    for position in range(len(text) - 1, -1, -1):
        letter = text[position]
        parentheses += (letter == ")") - (letter == "(")
        if not parentheses and text[position - 1 : position + 1] != "->":
            angles += (letter == ">") - (letter == "<")
        if not parentheses and not angles:
            return position
    return 0


def _first_function(name: str) -> str:
    """The name before the first bracket, of a truncated or unusual name."""
    found = _BEFORE_BRACKET.search(_UNNAMED.sub("unnamed", name))
    return found[1] if found else name.strip()


def _plain(arguments: str) -> str:
    """Template arguments without the differences between demanglers."""
    text = _NAMESPACE.sub("", arguments)
    text = _SUFFIX.sub("", _CAST.sub("", text))
    text = _WORDS.sub(lambda word: _VALUES[word[0]], text)
    return re.sub(r"\s+", "", text)
