"""Reads JSON documents that a user or `traceql capture` puts beside traces, and checks them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from traceql.util.input_file import Unusable, text

T = TypeVar("T")


@dataclass(frozen=True)
class JsonDocument:
    """A JSON document that DuckDB reads as Python does: its text, and its value."""

    text: str
    value: Any


def json_document(path: Path) -> JsonDocument:
    """The document in a file.

    Raises:
        Unusable: the file cannot be read, or is not JSON that has one meaning.
    """
    return parsed(text(path))


def parsed(found: str) -> JsonDocument:
    """The document in a text. NaN and Infinity are read: configurations of models have them.

    Raises:
        Unusable: it is not JSON that has one meaning.
    """
    if not found.strip():
        raise Unusable("empty file")
    try:
        value = json.loads(found, object_pairs_hook=_object)
        if "\\ud" in found.lower():
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise Unusable("nested too deeply") from None
    except UnicodeEncodeError:
        raise Unusable("not JSON: half of a surrogate pair in a string") from None
    except json.JSONDecodeError as error:
        raise Unusable(f"not JSON: {error}") from None
    except Unusable:
        raise
    except ValueError:  # more digits than Python converts
        raise Unusable("a number has thousands of digits") from None
    return JsonDocument(found, value)


def checked(value: Any, type_: type[T]) -> T:
    """The value as a msgspec struct, which ignores keys that it does not know.

    Raises:
        Unusable: a key is missing or has a value of another type; the message has its path.
    """
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        raise Unusable(str(error)) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; DuckDB would take the first of two equal keys, and Python the last."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise Unusable(f"an object has the key {json.dumps(twice[:40])} twice")
    return found
