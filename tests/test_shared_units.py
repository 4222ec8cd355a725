"""Columns of one kind of quantity have one unit, in which each of them can be read."""

from typing import Any

import pyarrow as pa

from traceql.result.text_table.columns import display_columns, shared_units
from traceql.result.text_table.layout import layout

MS, S = 1e6, 1e9


def shown(**columns: list[Any]) -> dict[str, list[str]]:
    return {c.title: list(c.cells) for c in display_columns(pa.table(columns))}


def symbols(**columns: list[float]) -> dict[str, str]:
    return {name: unit.symbol for name, unit in shared_units(columns).items()}


def test_parts_of_a_whole_have_its_unit() -> None:
    parts = shown(window_ns=[2_182_642_972], copy_ns=[233_807], overlap_ns=[0])
    assert parts == {"window ms": ["2,182.643"], "copy ms": ["0.234"], "overlap ms": ["0"]}


def test_a_small_column_brings_the_others_to_its_unit() -> None:
    assert shown(dur=[2_911_070], launched_ns=[597]) == {
        "dur µs": ["2,911.070"],
        "launched µs": ["0.597"],
    }
    # ... unless it is a negligible part of them.
    assert symbols(dur=[90 * S], launched_ns=[800.0]) == {"dur": "ms", "launched_ns": "ms"}


def test_statistics_have_their_own_unit_beside_much_larger_totals() -> None:
    totals = {"total_ns": [661 * MS, 337 * MS], "mean_ns": [22e3, 111e3], "max_ns": [3 * MS, 4e5]}
    assert symbols(**totals) == {"total_ns": "ms", "mean_ns": "µs", "max_ns": "µs"}
    rates = {"work_ns": [357 * MS], "per_step_ns": [1 * MS], "per_token_ns": [99e3]}
    assert symbols(**rates) == {"work_ns": "ms", "per_step_ns": "µs", "per_token_ns": "µs"}
    alike = {"dur": [9.3 * MS], "median_ns": [0.8 * MS], "excess_ns": [8.5 * MS]}
    assert set(symbols(**alike).values()) == {"ms"}


def test_points_in_time_are_no_durations() -> None:
    assert symbols(ts=[180 * MS], dur=[800.0]) == {"ts": "ms", "dur": "ns"}


def test_what_is_not_zero_does_not_look_like_zero() -> None:
    cells = shown(
        idle_ns=[5_700_000, 193, 0, 2_000_000, 3_000_000], share_pct=[59.9, 0.01, 0, -0.01, 1]
    )
    assert cells == {
        "idle ms": ["5.700", "<0.001", "0", "2.000", "3.000"],
        "share %": ["59.9", "<0.1", "0", ">-0.1", "1.0"],
    }


def test_rows_with_units_of_their_own_are_readable() -> None:
    cells = shown(
        headline=["recorded", "idle", "decode", "ledger", "output", "size", "none"],
        value=[1_494_796_514.0, 23.0, 4_264_189.5, 58.0, 1_099.61, 3.0 * 2**30, None],
        unit=["ns", "percent", "ns", "checks", "tokens/s", "bytes", "ns"],
    )
    assert cells["value"] == ["1,494.797", "23.0", "4.264", "58", "1,099.6", "3.000", "-"]
    assert cells["unit"] == ["ms", "%", "ms", "checks", "tokens/s", "GiB", "ns"]
    columns = display_columns(pa.table({"value": [5.0], "text": ["x" * 9], "unit": ["ns"]}))
    assert [each.column.name for each in layout(columns, 12, ["text", "value"]).shown] == ["text"]
