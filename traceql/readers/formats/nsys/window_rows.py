"""The events of one rank in a window of time, of all kinds, in the order of time."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from traceql.readers.dialects.nsys.vocabulary import Category
from traceql.readers.formats.nsys.blocks import RankRows
from traceql.readers.formats.nsys.events import events
from traceql.readers.formats.nsys.export import Export
from traceql.readers.formats.nsys.nvtx import Nvtx
from traceql.readers.formats.nsys.sources import EVENT, Source
from traceql.readers.formats.nsys.windows import Window
from traceql.readers.tables import NAME

_SUFFIX = r"(_v\d+)?(_pt(sz|ds))?$"  # of API calls: the version, and the kind of default stream
_SOURCE = pa.field("source", pa.int16(), nullable=False)
# What is known of an event: EVENT with its name, and the number of its source.
ROWS = pa.schema(
    [*(pa.field("name", NAME) if of.name == "name" else of for of in EVENT), _SOURCE]
).remove(EVENT.get_field_index("name_id"))


def window_rows(
    export: Export, nvtx: Nvtx, sources: Sequence[tuple[Source, RankRows]], window: Window
) -> pa.Table:
    """The table ROWS of a window.

    Args:
        sources: the kinds of events, and what of each belongs to the rank.
    """
    found = list(_each(export, nvtx, sources, window))
    rows = pa.concat_tables(found or [ROWS.empty_table()]).unify_dictionaries()
    ts, dur = rows["ts"].to_numpy(), rows["dur"].to_numpy()
    order = np.lexsort((-dur, ts))  # what encloses others comes before them
    return rows.take(pa.array(order)).combine_chunks()


def named(export: Export, ids: pa.ChunkedArray, name: pa.ChunkedArray) -> pa.DictionaryArray:
    """The name of each event: given, or that of its id."""
    codes = ids.combine_chunks().dictionary_encode()
    known = export.texts([i for i in codes.dictionary.to_pylist() if i is not None])
    texts = pa.array([known.get(i) for i in codes.dictionary.to_pylist()], pa.large_string())
    if name.null_count == len(name):
        return _coded(codes.indices, texts)
    by_id = texts.take(codes.indices)
    return pc.coalesce(name.combine_chunks(), by_id).dictionary_encode()


def _each(
    export: Export, nvtx: Nvtx, sources: Sequence[tuple[Source, RankRows]], window: Window
) -> Iterator[pa.Table]:
    """The events of each kind."""
    for number, (source, chosen) in enumerate(sources):
        rows = events(export, source, chosen, window)
        name = named(export, rows["name_id"], rows["name"])
        if source.category in (Category.RUNTIME, Category.DRIVER):
            short = pc.replace_substring_regex(name.dictionary, _SUFFIX, "")
            name = _coded(name.indices, short)
        known = {field.name: rows[field.name] for field in EVENT}
        if source.category == Category.NVTX:
            told = nvtx.arguments(chosen.condition(window))
            args = [told.get(int(row)) for row in rows["args"].to_pylist()]
            known["args"] = pa.array(args, pa.large_string())
        known |= {"name": name, "source": pa.array(np.full(rows.num_rows, number, np.int16))}
        yield pa.table([known[field.name] for field in ROWS], schema=ROWS)


def _coded(codes: pa.Array, texts: pa.Array) -> pa.DictionaryArray:
    """The texts of codes, each of which is in the dictionary once, and no NULL."""
    if texts.null_count or pc.count_distinct(texts).as_py() < len(texts):
        return texts.take(codes).dictionary_encode()
    return pa.DictionaryArray.from_arrays(codes, texts)
