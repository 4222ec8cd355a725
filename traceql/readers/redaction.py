"""Texts of Nsight Systems and of programs that people may see, without values of variables."""

from typing import Any

LETTERS = 160  # of a text that are shown


def redacted(text: Any) -> str:
    """The text in one line, up to its first equals sign: a value may be a secret, and have spaces.

    An export repeats the environment of the program, as `NAME=value`, in places of its own; a
    message, a process or a thread may repeat it once more.
    """
    before, equals, _ = str(text).partition("=")
    line = " ".join(before.replace("\0", " ").split())
    if equals:
        line += "=..."
    return line if len(line) <= LETTERS else f"{line[: LETTERS - 3]}..."
