"""The GPU times of the steps of each device, where they do not overlap."""

from dataclasses import dataclass
from typing import Self

import duckdb
import numpy as np

from traceql.analysis.intervals import Int64s, at
from traceql.analysis.parts_of_time import Part
from traceql.util.arrow_duckdb import Columns, columns_of, in_order, rows_where


@dataclass(frozen=True)
class StepSpans:
    """When each step begins and ends on its device, ns."""

    _spans: Columns

    @classmethod
    def of(cls, spans: duckdb.DuckDBPyRelation) -> Self:
        """From columns rank, device, step_id, ts and end_ts; no step may last 0 ns.

        Devices whose steps overlap a little are left out: there, the kernels around an instant show
        which step it belongs to.
        """
        found = in_order(columns_of(spans), "rank", "device", "ts")
        place = np.stack((found["rank"], found["device"]), axis=1)
        is_same = (place[1:] == place[:-1]).all(axis=1)
        is_early = is_same & (found["ts"][1:] < found["end_ts"][:-1])
        overlapping = {tuple(one) for one in place[1:][is_early].tolist()}
        kept = np.array([tuple(one) not in overlapping for one in place.tolist()], np.bool_)
        return cls(rows_where(found, kept))

    def at(self, part: Part, instants: Int64s, step_id: Int64s) -> Int64s:
        """The steps in whose GPU times these instants of a device are; else the given ones.

        Args:
            step_id: the steps of the kernels that count for the instants; -1, where they are
                unknown, remains.
        """
        is_own = (self._spans["rank"] == part.rank) & (self._spans["device"] == part.device)
        own = rows_where(self._spans, is_own)
        place = np.searchsorted(own["ts"], instants, side="right") - 1
        is_inside = (place >= 0) & (instants < at(own["end_ts"], place)) & (step_id >= 0)
        return np.where(is_inside, at(own["step_id"], place), step_id)
