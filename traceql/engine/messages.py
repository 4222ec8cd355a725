"""One line out of the many that the trace processor writes about an error."""


def last_line(text: str) -> str:
    """The last line that says something: Perfetto puts the reason after the traceback."""
    lines = [line.strip() for line in text.splitlines()]
    return next((line for line in reversed(lines) if line), "no reason given")
