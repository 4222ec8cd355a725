"""The report in a browser: at every width, light, dark and in print, it fits and says nothing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import databases
import pytest
from browser import CHROMIUM, Browser
from shared_files import shared_file

from traceql.present.report.run_report import page
from traceql.util.files import replace_file

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium"),
]

# What sticks out of its place, and the sizes of the letters in charts; pixels.
_LOOK = """
(() => {
  const seen = (element) => element.getClientRects().length > 0;
  const out = [];
  const sizes = new Set();
  for (const figure of document.querySelectorAll("figure")) {
    const paper = figure.getBoundingClientRect();
    for (const svg of [...figure.querySelectorAll("svg")].filter(seen)) {
      const picture = svg.getBoundingClientRect();
      if (picture.left < paper.left - 1 || picture.right > paper.right + 1)
        out.push(`picture ${figure.id}`);
      sizes.add(Math.round(11 * picture.width / svg.viewBox.baseVal.width * 10) / 10);
      for (const text of svg.querySelectorAll("text")) {
        const letters = text.getBoundingClientRect();
        if (letters.width && (letters.right > picture.right + 1 || letters.left < picture.left - 1))
          out.push(`${figure.id}: ${text.textContent}`);
      }
    }
    for (const region of [...figure.querySelectorAll(".scroll")].filter(seen)) {
      const scrolls = getComputedStyle(region).overflowX === "auto";
      if (region.scrollWidth > region.clientWidth + 1 && !scrolls) out.push(`table ${figure.id}`);
      if (region.getBoundingClientRect().right > paper.right + 1) out.push(`rows ${figure.id}`);
    }
  }
  return JSON.stringify({
    out, sizes: [...sizes], beyond: document.documentElement.scrollWidth - innerWidth,
    drawn: [...document.querySelectorAll("svg")].filter(seen).length,
    paper: getComputedStyle(document.documentElement).getPropertyValue("--paper").trim(),
  });
})()
"""
_SORT = """
(() => {
  const head = [...document.querySelectorAll("#time-breakdown th")].find(
    (th) => th.textContent.startsWith("exposed comm"));
  const sorted = () => {
    head.click();
    const rows = [...head.closest("table").tBodies[0].rows];
    return rows.map((row) => Number(row.cells[head.cellIndex].dataset.v));
  };
  return JSON.stringify([sorted(), sorted()]);
})()
"""
_FILTER = """
(() => {
  const form = document.getElementById("filters");
  form.elements.phase.value = "decode";
  form.elements.rank.value = "1";
  form.dispatchEvent(new Event("change"));
  const of = (element) => `${element.dataset.phase} ${element.dataset.rank}`;
  const rows = [...document.querySelectorAll("#steps-phases tbody tr:not([hidden])")];
  const marks = [...document.querySelectorAll("#steps-timeline .half svg [data-rank]")];
  const view = document.querySelector("#kernels-top .view:not([hidden])");
  return JSON.stringify({
    rows: [...new Set(rows.map(of))],
    lit: [...new Set(marks.filter((mark) => !mark.classList.contains("off")).map(of))],
    unlit: marks.filter((mark) => mark.classList.contains("off")).length,
    kernels: [view.dataset.phase, view.querySelector("code").textContent],
    titles: ["steps-timeline", "kernels-top", "overview-recording"].map(
      (id) => document.querySelector(`#${id} h3 small`).textContent),
  });
})()
"""


@pytest.fixture(scope="module")
def report() -> Path:
    """The report of four ranks, with prefill and decode steps."""
    trace = databases.trace("qwen3-32b-tp4-graph-nccl")
    return shared_file("page.html", lambda path: replace_file(path, page(trace).encode()))


@pytest.fixture
def window(request: pytest.FixtureRequest, report: Path) -> Iterator[Browser]:
    """A window with the report, of a width and a look."""
    width, look = request.param
    with Browser(width, 900) as browser:
        browser.call("Network.enable")
        browser.call("Log.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if look == "dark" else "light"}
        medium = "print" if look == "print" else ""
        browser.call("Emulation.setEmulatedMedia", media=medium, features=[scheme])
        browser.open(report.as_uri())
        browser.wait_for_text("Made by traceql", 20)
        yield browser


def _said(browser: Browser) -> list[dict[str, Any]]:
    """What the console said, and requests for anything but the page."""
    said = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
    return [
        event
        for event in browser.events
        if event.get("method") in said
        or (
            event.get("method") == "Network.requestWillBeSent"
            and not event["params"]["request"]["url"].startswith(("file:", "data:"))
        )
    ]


@pytest.mark.parametrize(
    "window",
    [(360, "light"), (1400, "light"), (1400, "dark"), (2560, "dark"), (718, "print")],
    indirect=True,
)
def test_everything_fits_in_its_place_and_letters_have_one_size(
    window: Browser, request: pytest.FixtureRequest
) -> None:
    found = json.loads(window.evaluate(_LOOK))
    assert found["out"] == []
    assert found["beyond"] <= 0
    assert found["drawn"] > 20
    assert min(found["sizes"]) >= 9
    assert max(found["sizes"]) / min(found["sizes"]) < 1.1
    assert _said(window) == []
    dark = request.node.callspec.params["window"][1] == "dark"
    assert found["paper"] == ("#16191d" if dark else "#ffffff")


@pytest.mark.parametrize("window", [(1400, "light")], indirect=True)
def test_rows_are_sorted_and_a_phase_and_a_rank_are_chosen(window: Browser) -> None:
    falling, rising = json.loads(window.evaluate(_SORT))
    assert falling[::-1] == rising == sorted(falling)
    assert len({*rising}) > 2
    found = json.loads(window.evaluate(_FILTER))
    assert found["rows"] == ["decode 1"]
    assert found["lit"] == ["decode 1"]
    assert found["unlit"] > 10
    phase, command = found["kernels"]
    assert phase == "decode"
    assert command.endswith(" --phase decode")
    assert found["titles"] == ["decode, rank 1", "decode, all ranks", "all phases, all ranks"]
    assert _said(window) == []
