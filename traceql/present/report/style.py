"""The style sheet of pages, for light and dark screens."""

from pathlib import Path

from traceql.present.report.picture import variables

_SHEET = Path(__file__).with_name("page.css")


def style() -> str:
    dark = f"@media screen and (prefers-color-scheme: dark){{:root{{{variables(dark=True)}}}}}"
    return f":root{{{variables(dark=False)}}}\n{dark}\n{_SHEET.read_text(encoding='utf-8')}"
