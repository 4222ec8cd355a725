"""Shortens the error messages of the trace processor to one line."""


def last_line(text: str) -> str:
    """The last line that is not empty: Perfetto puts the reason after the traceback."""
    lines = [line.strip() for line in text.splitlines()]
    return next((line for line in reversed(lines) if line), "no reason given")
