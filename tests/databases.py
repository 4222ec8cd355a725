"""Real traces: each run loaded once by all test processes, and its files read by other means."""

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from shared_files import shared_file

import traceql

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
SHARED = ROOT.parent / "shared" / "traces"
THIRD_PARTY = SHARED / "third-party"

BUNDLED = ("qwen3-8b-tp1-graph", "qwen3-32b-tp4-graph-nccl")
RUN_DIRECTORY = "qwen3-8b-tp2-serving"  # bundled
BATCH16 = "qwen3-8b-tp2-batch16"  # another run directory that is bundled, with its own peaks.json
SERVING = "qwen3-8b-tp2-graph-serving"  # 154 MB of JSON a rank
OWN = (
    *BUNDLED,
    "qwen3-0.6b-tp1-eager",
    "qwen3-8b-tp2-eager-stack-4layers",
    "qwen3-8b-pp2-graph",
    "qwen3-30b-a3b-tp4-ep-graph",
    "qwen3-30b-a3b-tp2-ep-eager-stack-6layers",
    SERVING,
)
OTHERS = {
    "b200-vllm-moe-eager": ("tracelens/b200-vllm-moe-eager.json.gz",),
    "h100-qwen1.5": ("tracelens/h100-qwen1.5-0.5b-eager.json.gz",),
    "mi300x-qwen1.5": ("tracelens/mi300x-qwen1.5-0.5b-eager.json.gz",),
    "mi300x-resnet-training": ("tracelens/mi300x-resnet-training.json.gz",),
    "mi300x-sglang": ("tracelens/mi300x-sglang-qwen3-8b-prefilldecode.json.gz",),
    "a100-graph-launches": ("hta/a100-graph-launches-rank0.json.gz",),
    "a100-nccl-metadata": ("hta/a100-nccl-metadata-rank0.json.gz",),
    "ns-resolution": ("hta/ns-resolution-rank0.json.gz",),
    "two-of-128-ranks": (
        "hta/two-of-128-ranks-rank0.json.gz",
        "hta/two-of-128-ranks-rank1.json.gz",
    ),
}
RUNS = (*OWN, *OTHERS)
SHORT = tuple(name for name in RUNS if name != SERVING)
OWN_SHORT = tuple(name for name in OWN if name != SERVING)
GPU = {"kernel", "gpu_memcpy", "gpu_memset"}

# The profiler's own layout of an event's first lines, and of the one event over the whole trace.
_EVENT = re.compile(
    r'^ +"ph": "X", "cat": "(?P<cat>[^"]*)", "name": "(?P<name>.*)", '
    r'"pid": (?P<pid>.+), "tid": (?P<tid>.+),\n +"ts": (?P<ts>[\d.]+), "dur": (?P<dur>[\d.]+)',
    re.MULTILINE,
)
_WHOLE = re.compile(
    r'"ph": "X", "cat": "(?P<cat>Trace)", "ts": (?P<ts>[\d.]+), "dur": (?P<dur>[\d.]+),\n'
    r' +"pid": (?P<pid>.+), "tid": (?P<tid>.+),\n +"name": "(?P<name>.+)"'
)
_PARSED_BELOW_BYTES = 5_000_000  # of gzip; a larger file is searched for the layouts


class FileEvent(NamedTuple):
    """A complete event as the JSON has it; args is None where the file was only searched."""

    cat: str
    name: str
    ts: int  # ns
    dur: int  # ns
    pid: Any
    tid: Any
    args: dict[str, Any] | None


@dataclass(frozen=True)
class RankFile:
    rank: int
    path: Path
    offset_ns: int  # from the file's times to those of the database


def cases(names: Sequence[str] = RUNS) -> list[Any]:
    """Parameters for pytest; all runs but the smallest one are marked as slow."""
    slow = pytest.mark.slow
    return [pytest.param(name, marks=[] if name == BUNDLED[0] else [slow]) for name in names]


def files(name: str) -> list[Path]:
    """The files of a run, or its directory; skips the test where they are not there."""
    if name in (RUN_DIRECTORY, BATCH16):
        return [EXAMPLES / name]
    if name in OTHERS:
        found = [THIRD_PARTY / file for file in OTHERS[name]]
    else:
        folder = (EXAMPLES if name in BUNDLED else SHARED) / name
        found = sorted(folder.glob("*.json.gz"))
    if not found or not all(file.is_file() for file in found):
        pytest.skip(f"no traces of {name}")
    return found


def trace(name: str) -> traceql.Trace:
    """The run's database, opened; skips the test where its files are not there."""
    return _loaded(name, tuple(files(name)))


def answers(name: str, query: str, **parameters: Any) -> list[dict[str, Any]]:
    """The rows of a canned query of a run."""
    return trace(name).run(query, **parameters).rows()


def sql(name: str, statement: str, **parameters: Any) -> list[dict[str, Any]]:
    """The rows of a statement about a run."""
    return trace(name).select(statement, parameters).rows()


def rank_files(name: str) -> Iterator[RankFile]:
    """The files of a run with what the database says of them."""
    rows = trace(name).sql("SELECT rank, path, file_offset_ns FROM trace ORDER BY rank").rows()
    assert {Path(row["path"]) for row in rows} == {file.resolve() for file in files(name)}
    for row in rows:
        yield RankFile(row["rank"], Path(row["path"]), row["file_offset_ns"])


@lru_cache(maxsize=4)
def document(path: Path) -> dict[str, Any]:
    """The whole file, without floats; NaN and Infinity as text."""
    found: dict[str, Any] = json.loads(
        gzip.decompress(path.read_bytes()), parse_float=Decimal, parse_constant=str
    )
    return found


def is_parsed(path: Path) -> bool:
    return path.stat().st_size < _PARSED_BELOW_BYTES


@cache
def file_events(path: Path) -> list[FileEvent]:
    """All complete events of a file, in its order."""
    if not is_parsed(path):
        return _searched_events(path)
    return [
        FileEvent(
            event.get("cat", ""),
            event["name"],
            ns(event["ts"]),
            ns(event.get("dur", 0)),
            event["pid"],
            event["tid"],
            event.get("args"),
        )
        for event in document(path)["traceEvents"]
        if event["ph"] == "X"
    ]


@cache
def gpu_events(path: Path) -> list[FileEvent]:
    return [event for event in file_events(path) if event.cat in GPU]


def ns(us: Decimal | int | str) -> int:
    return int((Decimal(us) * 1000).to_integral_value(ROUND_HALF_EVEN))


@cache
def _loaded(name: str, paths: tuple[Path, ...]) -> traceql.Trace:
    def load(path: Path) -> None:
        traceql.load(paths, path, complete=True)

    return traceql.Trace(shared_file(f"{name}.duckdb", load))


def _searched_events(path: Path) -> list[FileEvent]:
    text = gzip.decompress(path.read_bytes()).decode()
    found = [
        FileEvent(
            event["cat"],
            event["name"],
            ns(event["ts"]),
            ns(event["dur"]),
            json.loads(event["pid"]),
            json.loads(event["tid"]),
            None,
        )
        for layout in (_EVENT, _WHOLE)
        for event in layout.finditer(text)
    ]
    assert len(found) == text.count('"ph": "X"')
    return found
