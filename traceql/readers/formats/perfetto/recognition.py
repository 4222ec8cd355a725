"""Recognises native Perfetto traces by their first packets, under any name."""

import re
from pathlib import Path

from traceql.readers.first_bytes import head

_HEAD_BYTES = 4096
_FIRST_BYTE = b"\n"  # of field 1 of the message Trace, which is a packet
_JSON = re.compile(rb'\s+(?:\{\s*"|\[\s*\{)\s*"?\w')  # Kineto's files begin with a line break
# Names in a folder of traces that are surely none, so that those files are not opened.
_OTHERS = re.compile(
    r"\.(?:bz2|c|cc|cfg|conf|cpp|css|csv|cu|cubin|cuh|db|duckdb|gguf|gif|go|h|hpp|html|ini|ipynb|jpe?g"
    r"|js|json|jsonl|lock|log|md|ncu-rep|npy|npz|nsys-rep|o|onnx|parquet|pdf|pickle|pkl|png|pt|pth|ptx"
    r"|py|pyc|rs|rst|safetensors|sh|so|sql|sqlite3?|svg|tar|tgz|toml|ts|tsv|txt|wasm|webp|whl|xml|xz"
    r"|ya?ml)"
)
# rocprof-sys writes the same recording as a database too.
_OF_ROCPROF_SYS = re.compile(r"perfetto-trace-(\d+)\.proto")


def begins_like_a_trace(path: Path) -> bool:
    """Whether a file begins with packets of a trace; False if it cannot be read."""
    found = head(path, _HEAD_BYTES)
    if found[:1] != _FIRST_BYTE or _JSON.match(found):
        return False
    from traceql.readers.formats.perfetto.packets import begins_with_packets

    return begins_with_packets(found)


def is_trace_of_another_name(path: Path) -> bool:
    """Whether a file of a folder is a trace, though its name is not that of one."""
    suffix = path.suffix.lower()
    packed = suffix in (".gz", ".zst", ".zip")
    suffix = path.with_suffix("").suffix.lower() if packed else suffix
    return not _OTHERS.fullmatch(suffix) and begins_like_a_trace(path)


def is_superseded(path: Path) -> bool:
    """Whether the database of the same recording lies beside a trace of rocprof-sys."""
    found = _OF_ROCPROF_SYS.fullmatch(path.name)
    return found is not None and path.with_name(f"rocpd-{found[1]}.db").is_file()
