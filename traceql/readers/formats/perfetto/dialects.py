"""Detects the profiler of a Perfetto trace by its categories, and decodes its arguments."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.arguments import Arguments, Texts, decoded
from traceql.readers.device_activities import may_be_activity
from traceql.readers.dialects.pytorch.vocabulary import GPU_CATEGORIES
from traceql.readers.dialects.rocprof.vocabulary import (
    CATEGORIES,
    COPIES,
    GRAPH_LAUNCH,
    OF_PERFETTO,
    ON_GPU,
    Argument,
)
from traceql.readers.formats.rocprof.graph_losses import graph_remarks
from traceql.readers.tables import Remark

_NUMBER = re.compile(r"\d+")
_OBJECT = msgspec.json.Decoder(dict[str, Any])


@dataclass(frozen=True)
class TraceDialect:
    """The vocabulary of a trace."""

    name: str | None  # a package of traceql.readers.dialects; None for that of the reader
    may_be_activity: Callable[[Any], bool]  # whether events of a category are GPU activities
    arguments: Callable[[Sequence[bytes]], list[Arguments]]  # decodes the JSON of events
    names: Mapping[str, str] = field(default_factory=dict)
    remarks: Callable[[pa.Table, pa.Table], Iterable[Remark]] = lambda _slices, _activities: ()


def dialect_of(categories: Iterable[str | None]) -> TraceDialect:
    """The dialect of a trace with these categories: rocprofv3's, or else PyTorch's."""
    found = {category.lower() for category in categories if category}
    if found & OF_PERFETTO and not found & GPU_CATEGORIES:
        on_gpu = {category for category in CATEGORIES if category.upper() in ON_GPU}
        return TraceDialect(
            "rocprof", lambda cat: str(cat).lower() in on_gpu, _of_rocprof, COPIES, _graphs
        )
    return TraceDialect(None, may_be_activity, _of_pytorch)


def _of_pytorch(texts: Sequence[bytes]) -> list[Arguments]:
    return decoded(*Texts().add(texts))


def _of_rocprof(texts: Sequence[bytes]) -> list[Arguments]:
    """Decodes arguments; if the trace has no streams, queues of the GPU take their place."""
    records: list[dict[str, Any]] = [_OBJECT.decode(text) if text else {} for text in texts]
    streams = [
        _integer(each.get(Argument.STREAM, each.get(Argument.STREAM_ID))) for each in records
    ]
    gpus = {_number(each.get(Argument.AGENT)) for each in records}
    has_streams = bool(np.any([stream for stream in streams if stream]))
    return [
        Arguments(
            correlation=_integer(each.get(Argument.CORRELATION)) or None,
            device=_device(each, gpus),
            stream=stream if has_streams else _integer(each.get(Argument.QUEUE, stream)),
            bytes=_integer(each.get(Argument.COPIED_BYTES)),
        )
        for each, stream in zip(records, streams, strict=True)
    ]


def _graphs(slices: pa.Table, activities: pa.Table) -> Iterable[Remark]:
    """The kernels of each launch of a HIP graph; these traces do not name the graph."""
    correlation = slices["correlation"].fill_null(0).to_numpy()
    is_launch = pc.fill_null(
        pc.match_substring(slices["name"].cast(pa.large_string()), GRAPH_LAUNCH), False
    )
    launches = correlation[is_launch.to_numpy().astype(np.bool_)]
    return graph_remarks(launches, correlation[activities["index"]])


def _device(arguments: dict[str, Any], gpus: set[int | None]) -> int | None:
    """The number in the name of an agent, such as `Agent-4`: of a copy, the target or the source.

    Args:
        gpus: the numbers of the agents that ran kernels.
    """
    keys = (Argument.AGENT, Argument.TARGET_AGENT, Argument.SOURCE_AGENT)
    numbers = [_number(arguments[key]) for key in keys if key in arguments]
    return next((number for number in numbers if number in gpus), None)


def _number(agent: object) -> int | None:
    found = None if agent is None else _NUMBER.search(str(agent))
    return int(found[0]) if found else None


def _integer(value: object) -> int | None:
    return value if type(value) is int else None
