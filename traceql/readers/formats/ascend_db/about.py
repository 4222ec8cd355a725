"""What a database says of its recording: texts of tables META_DATA and NPU_INFO."""

import json
from collections.abc import Iterator
from typing import Any

from traceql.readers.formats.ascend_db.profile import Profile, is_utf8
from traceql.readers.formats.kineto.kineto_json import repaired_json
from traceql.readers.remarks import Remark

METADATA, NPU = "META_DATA", "NPU_INFO"


class About:
    """The texts that are asked for. The table of metadata also has a part of the environment."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._asked: dict[str, set[object]] = {}
        self._unknown: dict[str, list[str]] = {}
        self._altered: dict[str, list[str]] = {}

    def text(self, name: str) -> str | None:
        """A text of the table of metadata; None if there is none, or if it is of another type."""
        return self._text(METADATA, ("name", "value"), name, name)

    def document(self, name: str) -> Any:
        """The same as JSON; None if there is none, or if it is none."""
        try:
            return json.loads(repaired_json((self.text(name) or "null").encode()))
        except (ValueError, RecursionError):
            self._unknown.setdefault(METADATA, []).append(f"{name} (damaged JSON)")
            return None

    def device_name(self, number: int) -> str | None:
        """The name of an NPU."""
        return self._text(NPU, ("id", "name"), number, f"name of NPU {number}")

    def remarks(self) -> Iterator[Remark]:
        """Which of the values that were asked for are unknown, or not as they are in the file."""
        for table, odd in self._unknown.items():
            yield self._remark(
                table, odd, False, "values that are no text, or damaged, and unknown"
            )
        for table, odd in self._altered.items():
            note = "texts with a replacement character for each byte that is no UTF-8"
            yield self._remark(table, odd, None, note)

    def _remark(self, table: str, odd: list[str], ok: bool | None, note: str) -> Remark:
        what = f"{note}; all that are read. They are: {', '.join(odd)}"
        name = f"values of {table}" if ok is False else f"texts of {table} that are no UTF-8"
        return Remark(name, len(odd), len(self._asked[table]), ok, what)

    def _text(self, table: str, columns: tuple[str, str], key: object, called: str) -> str | None:
        if not self._profile.has(table, *columns):
            return None
        named, column = columns
        rows = self._profile.rows(
            f"SELECT {column}, CAST({column} AS BLOB) FROM {table} WHERE {named} = ?", [key]
        )
        if not rows or rows[0][0] is None:
            return None
        self._asked.setdefault(table, set()).add(key)
        value, content = rows[0]
        if not isinstance(value, str):
            self._unknown.setdefault(table, []).append(called)
            return None
        if not is_utf8(content):
            self._altered.setdefault(table, []).append(called)
        return value
