"""Assigns rows to tracks: one track per rank and name, and more if slices overlap."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from traceql.present.pftrace.kinds import TrackKind
from traceql.present.pftrace.packets import Int64s, integers
from traceql.present.pftrace.rank_groups import RankGroups, Spot
from traceql.readers.lanes import lanes


def track_of_slices(rows: pa.Table, kind: TrackKind, position: int, tracks: RankGroups) -> Int64s:
    """The number of each row's track. New tracks are added, the one with most rows first.

    Columns: `rank`, `track`, `ts`, `dur`.
    """
    named, names = _numbered(rows)
    lane = lanes(named, integers(rows["ts"]), integers(rows["dur"]))
    lane_count = int(lane.max(initial=0)) + 1
    used, inverse = np.unique(named * lane_count + lane, return_inverse=True)
    place = _fullest_first(named).tolist()
    numbers = [
        tracks.add(name, Spot(rank, kind.group, (position, place[key // lane_count])))
        for key in used.tolist()
        for rank, name in [names[key // lane_count]]
    ]
    return np.array(numbers, np.int64)[inverse]


def tracks_of_samples(
    rows: pa.Table, kind: TrackKind, position: int, tracks: RankGroups
) -> dict[tuple[int, str], int]:
    """Adds a track for each `rank`, `track` and `unit` of the rows; returns their numbers."""
    by = ["rank", "track", "unit"]
    named = rows.group_by(by).aggregate([]).sort_by([(name, "ascending") for name in by])
    return {
        (rank, name): tracks.add(name, Spot(rank, kind.group, (position, place)), unit)
        for place, (rank, name, unit) in enumerate(
            zip(*(named[column].to_pylist() for column in ("rank", "track", "unit")), strict=True)
        )
    }


def track_of_each(rows: pa.RecordBatch, numbers: Mapping[tuple[int, str], int]) -> Int64s:
    """The track number of each row, from its columns `rank` and `track`."""
    named, names = _numbered(rows)
    return np.array([numbers[name] for name in names], np.int64)[named]


def _numbered(rows: pa.Table | pa.RecordBatch) -> tuple[Int64s, list[tuple[int, str]]]:
    """A number from 0 for each distinct rank and track; and the (rank, track) of each number."""
    texts = pa.chunked_array(rows["track"]).combine_chunks().dictionary_encode()
    count = max(len(texts.dictionary), 1)
    keys = integers(rows["rank"]) * count + integers(texts.indices)
    used, inverse = np.unique(keys, return_inverse=True)
    names = [(key // count, texts.dictionary[key % count].as_py()) for key in used.tolist()]
    return inverse.astype(np.int64), names


def _fullest_first(named: Int64s) -> Int64s:
    """The place of each track when they are sorted by number of rows, most first."""
    counts = np.bincount(named)
    place = np.empty(len(counts), np.int64)
    place[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return place
