"""Values that are written, without secrets in them: tokens, keys, passwords in URLs."""

import re
from typing import Any

# What is in the name of a secret; "tokenizer" and "tokens" mean those of a model.
_NAME = re.compile(
    r"secret|passw|passphrase|credential|cookie|authori[sz]|oauth|api_?key|keys?$"
    r"|token(?!i[sz]|s(?![a-z]))|(?<![a-z])(?:auth|dsn|key|pat|private|pwd)(?![a-z])",
    re.IGNORECASE,
)
_USER_OF_URL = re.compile(r"(?<=://)[^\s/?#]{1,500}(?=@)")
_OPTION = re.compile(r"(?<![\w-])(-{0,2}[A-Za-z_][\w.-]{0,80})(=|:\s|\s+(?!-))")


def is_secret(name: str) -> bool:
    """Whether the value of an option or variable of this name must not be written."""
    return bool(_NAME.search(name))


def without_secrets(value: Any, name: str = "") -> Any:
    """A JSON value with `...` for texts under such names, and from the value of an option on."""
    if isinstance(value, dict):
        return {key: without_secrets(one, f"{name}.{key}") for key, one in value.items()}
    if isinstance(value, list | tuple) and any(not isinstance(one, int | float) for one in value):
        before = ("", *(one if isinstance(one, str) and one[:1] == "-" else "" for one in value))
        return [without_secrets(v, name + option) for v, option in zip(value, before, strict=False)]
    if not isinstance(value, str) or not value or is_secret(name):
        return "..." if value and isinstance(value, str) else value
    text = _USER_OF_URL.sub("...", value)
    for found in _OPTION.finditer(text):
        if (found[1][0] == "-" or found[2][0] in "=:") and is_secret(found[1]):
            return f"{text[: found.end()]}..."
    return text
