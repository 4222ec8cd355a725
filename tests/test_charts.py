"""Charts show what the rows say, stay readable with many rows, and are files that stand alone."""

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import databases
import numpy as np
import pyarrow as pa
import pytest
from command_line import called

import traceql
from traceql.result.chart.draw import drawn
from traceql.result.chart.worker import picture
from traceql.sql.query import Chart

BAR = {"x": "dur", "y": "name"}


def spec_of(table: pa.Table, kind: str, **channels: str) -> dict[str, Any]:
    """A chart, in which `rows` are the data that it carries."""
    spec: dict[str, Any] = drawn(table, Chart(kind, channels, "Time"), width=720).to_dict()
    return spec | {"rows": [row for rows in spec["datasets"].values() for row in rows]}


def rows_of(table: pa.Table, kind: str, **channels: str) -> list[dict[str, Any]]:
    return list(spec_of(table, kind, **channels)["rows"])


def test_bars_are_the_rows_in_a_readable_unit() -> None:
    table = pa.table({"name": ["a", "b", "a"], "total_ns": [2_500_000, 1_000_000, 500_000]})
    spec = spec_of(table, "bar", x="total_ns", y="name")
    assert [(row["name"], row["total_ns"]) for row in spec["rows"]] == [
        ("a", 2.5),
        ("b", 1.0),
        ("a", 0.5),
    ]
    assert spec["encoding"]["x"]["title"] == "total (ms)"
    assert spec["encoding"]["y"]["sort"] == ["a", "b"]
    assert spec["title"] == "Time"


def test_quantities_of_a_row_are_bars_side_by_side() -> None:
    table = pa.table({"phase": ["decode", "all"], "mfu_pct": [2.0, None], "mbu_pct": [36.0, 11.0]})
    spec = spec_of(table, "bar", x="mfu_pct,mbu_pct", y="phase")
    assert [tuple(row.values()) for row in spec["rows"]] == [
        ("decode", "MFU", 2.0), ("decode", "MBU", 36.0), ("all", "MBU", 11.0),
    ]  # fmt: skip
    across = spec["encoding"]["x"]
    assert (across["title"], across["scale"]["domain"]) == ("%", [0, 100])
    assert spec["encoding"]["yOffset"]["sort"] == ["MFU", "MBU"]
    assert spec["encoding"]["color"]["scale"]["domain"] == ["MFU", "MBU"]


def test_of_a_thousand_bars_the_longest_are_drawn() -> None:
    table = pa.table({"name": [str(n) for n in range(1_000)], "total_ns": list(range(1_000))})
    rows = rows_of(table, "bar", x="total_ns", y="name")
    assert [int(row["name"]) for row in rows] == list(range(970, 1_000))


def test_parts_of_several_rows_of_one_bar_are_summed_and_the_first_part_orders_the_bars() -> None:
    table = pa.table({
        "role": ["a", "b", "a", "b"], "work_ns": [1, 5, 2, 7], "wait_ns": [90, None, 9, None],
    })  # fmt: skip
    spec = spec_of(table, "stacked", x="work_ns,wait_ns", y="role")
    assert {(row["role"], row["part"]): row["value"] for row in spec["rows"]} == {
        ("a", "work"): 3, ("b", "work"): 12, ("a", "wait"): 99,
    }  # fmt: skip
    assert spec["encoding"]["y"]["sort"] == ["b", "a"]


def test_a_deviation_is_the_difference_from_the_median_of_the_row() -> None:
    table = pa.table({
        "layer": [0, 1, 2] * 2, "role": ["act"] * 3 + ["rope"] * 3,
        "work_ns": [100, 100, 140, 7, 7, 7],
    })  # fmt: skip
    spec = spec_of(table, "deviation", x="layer", y="role", color="work_ns")
    assert [row["work_ns"] for row in spec["rows"]] == [0, 0, 40, 0, 0, 0]
    low, middle, high = spec["encoding"]["color"]["scale"]["domain"]
    assert (low, middle) == (-high, 0)


def test_a_range_reaches_from_its_first_to_its_last_value() -> None:
    table = pa.table({
        "latency": ["ttft", "itl"], "pass": ["profiled"] * 2,
        "p50_ns": [2e6, 1e6], "p90_ns": [4e6, 2e6], "p99_ns": [90e6, 3e6],
    })  # fmt: skip
    spec = spec_of(table, "range", x="p50_ns,p90_ns,p99_ns", y="latency", color="pass")
    line, *ticks, dot = (layer["encoding"] for layer in spec["layer"])
    assert (line["x"]["field"], line["x2"]["field"]) == ("p50_ns", "p99_ns")
    assert [tick["x"]["field"] for tick in ticks] == ["p90_ns", "p99_ns"]
    assert dot["x"]["field"] == "p50_ns"
    assert line["x"]["scale"]["type"] == "log"
    assert line["x"]["title"] == "p50, p90, p99 (ms)"


def test_limits_are_lines_with_their_names() -> None:
    table = pa.table({
        "bytes": [1 << 20, 4 << 20], "busbw_p50_gbps": [40.0, 80.0], "op": ["all_gather"] * 2,
        "peak_gbps": [450.0, 450.0], "busbw_max_gbps": [50.0, 90.6],
    })  # fmt: skip
    limits = "peak_gbps,busbw_max_gbps"
    spec = spec_of(table, "point", x="bytes", y="busbw_p50_gbps", color="op", limits=limits)
    names = [row["limit"] for row in spec["rows"] if "limit" in row]
    assert names == ["peak 450 GB/s", "busbw max 91 GB/s"]
    assert spec["layer"][-1]["encoding"]["y"]["scale"]["type"] == "log"


def test_many_points_become_counts_that_add_up() -> None:
    spread = np.random.default_rng(1).integers(1, 10**6, size=(2, 20_000))
    table = pa.table({"ts": spread[0], "dur": spread[1], "cause": ["host", "sync"] * 10_000})
    rows = rows_of(table, "point", x="ts", y="dur", color="cause")
    assert len(rows) <= 2 * 48 * 48
    assert sum(row["rows"] for row in rows) == 20_000
    assert sum(row["rows"] for row in rows if row["cause"] == "host") == 10_000
    mean_us = sum(row["dur"] * row["rows"] for row in rows) / 20_000
    assert mean_us == pytest.approx(spread[1].mean() / 1_000)


def test_a_crowded_timeline_keeps_its_span_and_every_colour() -> None:
    table = pa.table({
        "ts": [n * 10 for n in range(50_000)],
        "dur": [9] * 50_000,
        "stream": [7] * 50_000,
        "role": ["attention" if n % 1_000 == 0 else "act" for n in range(50_000)],
    })  # fmt: skip
    rows = rows_of(table, "timeline", x="ts", width="dur", y="stream", color="role")
    assert len(rows) <= 1_601 + 50
    assert (min(row["ts"] for row in rows), max(row["end"] for row in rows)) == (0.0, 499.999)
    assert sum(row["role"] == "attention" for row in rows) == 50


@pytest.mark.slow
def test_a_page_loads_nothing_from_elsewhere_and_a_name_is_no_markup_on_it(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    result = traceql.Result(pa.table({"name": [evil], "dur": [5]}), Chart("bar", BAR))
    for suffix in ("html", "png"):
        result.save_chart(tmp_path / f"chart.{suffix}")
    with pytest.raises(traceql.TraceqlError, match=r"\.html, \.png, \.svg"):
        result.save_chart(tmp_path / "chart.gif")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    page = (tmp_path / "chart.html").read_text(encoding="utf-8")
    assert "alert(1)" in page
    assert "<script>alert" not in page
    markup = re.sub(r"(?s)(<script[^>]*>).*?</script>", r"\1", page)
    tags = re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", markup)
    assert tags
    assert not [tag for tag in tags if "src=" in tag or "href=" in tag]


@pytest.mark.slow
def test_a_name_may_have_characters_that_xml_does_not_allow() -> None:
    table = pa.table({"name": ["a\x01b\ufffe\t<é>&"], "dur": [5]})
    drawing = picture(traceql.Result(table, Chart("bar", BAR)).chart(), ".svg")
    assert r"a\x01b\ufffe" in "".join(ElementTree.fromstring(drawing).itertext())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.b[0]", "a\\b", "a'b", 'a"b', "a\x01b", "x:Q"])
def test_a_column_may_have_any_name(name: str) -> None:
    """The same bars as with an ordinary name, of three lengths."""

    def bars(x: str) -> list[str]:
        table = pa.table({x: [5, 6, 7], "y": ["p", "q", "r"]})
        chart = traceql.Result(table, Chart("bar", {"x": x, "y": "y"})).chart()
        drawing = ElementTree.fromstring(picture(chart, ".svg"))
        marks = drawing.findall(".//{*}path[@stroke-width='0.5']")
        return [mark.attrib["d"] for mark in marks]

    assert bars(name) == bars("plain")
    assert len(set(bars("plain"))) >= 3


def test_nothing_to_draw_is_said_so() -> None:
    for values in [], [None]:
        table = pa.table({"dur": pa.array(values, pa.int64()), "name": ["a"] * len(values)})
        with pytest.raises(traceql.TraceqlError, match="nothing to draw"):
            drawn(table, Chart("bar", BAR), width=720)


@pytest.mark.slow
def test_command_line_draws_into_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = databases.trace("qwen3-32b-tp4-graph-nccl").path
    monkeypatch.chdir(tmp_path)
    done = called("run", "time.breakdown", database, "--chart", "chart.svg")
    assert (done.returncode, done.stdout) == (0, b"")
    assert "4 rows" in done.stderr.decode()
    assert "exposed transfer" in (tmp_path / "chart.svg").read_text(encoding="utf-8")
