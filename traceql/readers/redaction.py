"""Texts and JSON values of files that people may see, without values of variables and secrets."""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import pyarrow as pa

from traceql.readers.tables import Remark, TraceTables, remark_table

LETTERS = 160  # of a text that are shown
_NAMES, _LETTERS_OF_NAME = 10, 40  # names in a note
_DEEPEST = 100  # objects and lists around a value of metadata; no profiler nests as many
_NAMES_OF_TRACKS = ("process_name", "thread_name", "process_labels")
_CUT = "..."
_LEFT_OUT = object()
# What is in the name of a secret; "tokenizer", "tiktoken" and "tokens" mean those of a model.
_SECRET = re.compile(
    r"secret|passw|passphrase|credential|cookie|authori[sz]|oauth|keys?$"
    r"|(?<!tik)token(?!i[sz]|s(?![a-z]))|(?:access|api|hf|refresh|session)_?tokens"
    r"|(?<![a-z])(?:key|auth|bearer|dsn|jwt|pass|pat|private|pwd)(?![a-z])",
    re.IGNORECASE,
)
_LOWER_TO_UPPER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# A number under such a name may be a secret; under `max_tokens` it is a size.
_OF_NUMBER = re.compile(r"(?:key|pass|passwd|password|pin|pwd|secret|token)$", re.IGNORECASE)
_NUMBER = re.compile(r"-?[0-9.,]*")
_FLAG = r"(?<!\S)(?P<flag>--?\w[\w.-]{0,80})(?:=|\s+(?!-))"
_VARIABLE = r"(?<![\w.-])(?P<variable>[A-Za-z_][\w.-]{0,80})[\"']?\s{0,9}(?:=|:(?!:|//))\s{0,9}"
_NAMED_VALUE = re.compile(rf"(?:{_FLAG}|{_VARIABLE})(?P<value>[\"']?[^\s\"',;&]*)")
_FORMS = re.compile(
    r"(?P<scheme>\b[A-Za-z][\w+.-]{0,30}://)[^\s/?#]{1,500}@"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?s:.*)"
    r"|\bBearer\s+\S+"
    r"|\b(?:(?:sk|glpat|nvapi|xox[a-z])-|gh[opsru]_|github_pat_|AIza)[\w-]{16,}"
    r"|\bhf_[A-Za-z0-9]{16,}"
    r"|\bA[KS]IA[0-9A-Z]{12,}|\beyJ[\w-]{8,}\.[\w.-]+"
)
_HINT = r"[-:=@_]|Bearer|AIza|A[KS]IA|eyJ"  # in all texts with a secret


def redacted(text: Any) -> str:
    """The text in one line, up to its first equals sign: a value may be a secret, and have spaces.

    An export repeats the environment of the program, as `NAME=value`, in places of its own; a
    message, a process or a thread may repeat it once more.
    """
    before, equals, _ = str(text).partition("=")
    line = " ".join(without_secrets(before).replace("\0", " ").split())
    if equals:
        line += "=..."
    return line if len(line) <= LETTERS else f"{line[: LETTERS - 3]}..."


def is_secret(name: str) -> bool:
    """Whether the value under a name must not be seen: HF_TOKEN, apiKey, --db-password."""
    return bool(_SECRET.search(_LOWER_TO_UPPER.sub("_", name)))


def without_secrets(text: str) -> str:
    """The text up to the first value whose name is that of a secret, such as `--api-key ...`.

    Before it, tokens of well-known forms and passwords in URLs are left out.
    """
    text = _FORMS.sub(lambda found: f"{found['scheme']}{_CUT}@" if found["scheme"] else _CUT, text)
    for found in _NAMED_VALUE.finditer(text):
        name, value = found["flag"] or found["variable"], found["value"]
        is_size = _NUMBER.fullmatch(value) and not _OF_NUMBER.search(name)
        if value != _CUT and not is_size and is_secret(name):
            return f"{text[: found.start('value')]}{_CUT}"
    return text


class Redaction:
    """What was left out of JSON values.

    Attributes:
        keys: how many keys at the top of files were looked up among the known ones.
        unknown: those that were left out.
        secrets: the names of values that were left out, or cut, because they look secret.
    """

    def __init__(self) -> None:
        self.keys = 0
        self.unknown: list[str] = []
        self.secrets: list[str] = []

    def known(self, given: Mapping[str, Any], known: Set[str]) -> dict[str, Any]:
        """The known keys at the top of a file, and those in objects under other keys."""
        shown, found = self.shown(given), {}
        for key, value in given.items():
            is_around = key not in known and isinstance(value, dict)
            keys = {f"{key}.{inner}": inner for inner in value} if is_around else {key: key}
            self.keys += len(keys)
            self.unknown += [place for place, inner in keys.items() if inner not in known]
            if not is_around and key in known & shown.keys():
                found[key] = shown[key]
            elif is_around and (inside := known & shown[key].keys()):
                found[key] = {inner: v for inner, v in shown[key].items() if inner in inside}
        return found

    def shown(self, value: Any, name: str = "", *, is_private: bool = False, depth: int = 0) -> Any:
        """A JSON value without the secrets in it.

        Args:
            name: the key that it is under.
            is_private: whether that, or a key around it, is the name of a secret.
            depth: the number of objects and lists around it.
        """
        cut: Any = value
        if depth > _DEEPEST:
            cut = _LEFT_OUT
        elif isinstance(value, dict):
            of_keys = (
                (key, self.shown(v, key, is_private=is_private or is_secret(key), depth=depth + 1))
                for key, v in value.items()
            )
            return {key: v for key, v in of_keys if v is not _LEFT_OUT}
        elif isinstance(value, list):
            flags = (is_private or _is_secret_flag(before) for before in ("", *value))
            of_list = (
                self.shown(v, name, is_private=is_named, depth=depth + 1)
                for v, is_named in zip(value, flags, strict=False)
            )
            return [_CUT if v is _LEFT_OUT else v for v in of_list]
        elif isinstance(value, str):
            cut = _LEFT_OUT if is_private and value else without_secrets(value)
        elif is_private and _OF_NUMBER.search(name) and type(value) in (int, float):
            cut = _LEFT_OUT
        if cut is _LEFT_OUT or (isinstance(value, str) and cut != value):
            self.secrets.append(name)
        return cut

    def names(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        """Names of processes or threads without the secrets in them."""
        import pyarrow.compute as pc  # takes long, and only readers need it

        coded = texts.combine_chunks().dictionary_encode()
        if not pc.any(pc.match_substring_regex(coded.dictionary, _HINT)).as_py():
            return texts
        given = coded.dictionary.to_pylist()
        shown = [self.shown(name, "command line") for name in given]
        if shown == given:
            return texts
        return pa.chunked_array([pa.array(shown, texts.type).take(coded.indices)])

    def remarks(self) -> Iterator[Remark]:
        """What the ledger says about it; the names of values, never the values."""
        if self.unknown:
            kept = self.keys - len(self.unknown)
            yield Remark(
                "keys of the metadata", kept, self.keys, None, _KEYS + listed(self.unknown)
            )
        if self.secrets:
            left_out = len(self.secrets)
            yield Remark(
                "secrets left out", left_out, left_out, None, _SECRETS + listed(self.secrets)
            )


_KEYS = (
    "keys that are kept, because what they hold is known; keys at the top of the file. Left out: "
)
_SECRETS = (
    "values in the metadata, and names of processes and threads, that look like secrets and are "
    "left out, or cut; all of them: "
)


def listed(names: Sequence[str]) -> str:
    """Some of the names, each once, and how many there are besides."""
    distinct = list(dict.fromkeys(without_secrets(name)[:_LETTERS_OF_NAME] for name in names))
    more = len(distinct) - _NAMES
    return ", ".join(distinct[:_NAMES]) + (f" and {more} more" if more > 0 else "")


def _is_secret_flag(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("-") and is_secret(value)


def public_tables(trace: TraceTables, known: Set[str] | None) -> TraceTables:
    """The tables of a file as they may be stored: without secrets in metadata and names of tracks.

    Args:
        known: keys at the top of a file that are kept; None if the reader chose all that is there.
    """
    redaction = Redaction()
    if known is None:
        metadata = redaction.shown(dict(trace.metadata))
    else:
        metadata = redaction.known(trace.metadata, known)
    tracks = trace.tables["track"]
    for at, name in enumerate(tracks.column_names):
        if name in _NAMES_OF_TRACKS:
            tracks = tracks.set_column(at, tracks.schema.field(at), redaction.names(tracks[name]))
    checks = pa.concat_tables([trace.tables["load_check"], remark_table(redaction.remarks())])
    return replace(
        trace, metadata=metadata, tables={**trace.tables, "track": tracks, "load_check": checks}
    )
