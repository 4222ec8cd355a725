"""traceql ui and traceql export, as a user meets them."""

import http.client
import re
import signal
import struct
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import databases
import pytest
from browser import CHROMIUM
from command_line import refusal
from databases import EXAMPLES
from perfetto_page import HEIGHT, WIDTH, opened, served, the_port

import traceql
from traceql.readers.trace_processor import open_trace_processor

_TRACE = EXAMPLES / "qwen3-8b-tp1-graph" / "rank0.pt.trace.json.gz"


@pytest.fixture(scope="module")
def database() -> Path:
    return databases.trace("qwen3-8b-tp1-graph").path


def arguments(link: str) -> dict[str, str]:
    """What a link to the Perfetto UI asks it for."""
    return {name: values[0] for name, values in parse_qs(link.partition("?")[2]).items()}


def fetched(link: str, origin: str | None = "https://ui.perfetto.dev") -> bytes:
    """What Perfetto's page gets when it opens the link, or the installed one without an origin."""
    url = urlsplit(arguments(link)["url"])
    connection = http.client.HTTPConnection(url.netloc, timeout=60)
    connection.request("GET", url.path, headers={"Origin": origin} if origin else {})
    response = connection.getresponse()
    assert response.status == 200
    return response.read()


@pytest.mark.slow
@pytest.mark.skipif(not CHROMIUM, reason="no chromium is installed")
def test_the_offline_page_shows_derived_tracks_and_makes_the_picture(tmp_path: Path) -> None:
    database = databases.trace("qwen3-32b-tp4-graph-nccl").path
    picture = tmp_path / "perfetto.png"
    with opened(database) as page:
        shown = set(page.text().splitlines())
        page.screenshot(picture)
        failures = [e for e in page.events if e["method"] == "Runtime.exceptionThrown"]
    assert failures == []
    assert {"Steps", "Layers", "Roles", "Communication", "Idle", "Counters"} <= shown
    assert {f"rank {rank} · GPU {rank} (H200)" for rank in range(4)} <= shown
    assert {"Host threads", "GPU annotations"} <= shown
    assert not any(line.startswith("thread ") for line in shown)  # closed: they are many
    assert "Launch queue" not in shown  # closed too
    assert {"Idle gaps", "launch"} <= shown  # open, because the link points to a place
    # The layer that the link points to is selected: its panel has the SQL that finds it.
    assert any(line.startswith("SELECT * FROM layer WHERE rank = 0 AND") for line in shown)
    content = picture.read_bytes()
    assert struct.unpack(">II", content[16:24]) == (WIDTH, HEIGHT)
    assert len(content) > 50_000  # an empty page has less


@pytest.mark.slow
def test_perfetto_gets_the_enriched_trace_and_the_command_ends(database: Path) -> None:
    with served("ui", database, "--no-browser") as (link, process):
        content = fetched(link)
        assert process.wait(timeout=20) == 0
    assert link.startswith("https://ui.perfetto.dev/#!/?url=http%3A%2F%2F127.0.0.1%3A9001%2F")
    with open_trace_processor([content]) as tp:
        names = {row.name for row in tp.query("SELECT DISTINCT name FROM track")}
    assert {"Steps", "Layers", "Roles"} <= names


@pytest.mark.slow
def test_a_second_one_opens_the_installed_page_on_another_port(database: Path) -> None:
    with (
        served("ui", database, "--no-browser") as (first, first_process),
        served("ui", database, "--no-browser", alone=False) as (second, second_process),
    ):
        assert first.startswith("https://ui.perfetto.dev/")
        assert re.match(r"http://127\.0\.0\.1:\d+/index\.html#!/\?url=", second)
        assert urlsplit(second).port != 9001
        assert fetched(first)
        assert first_process.wait(timeout=20) == 0
        assert fetched(second, origin=None)
        second_process.send_signal(signal.SIGINT)
        said = second_process.communicate(timeout=20)[1]
        assert second_process.returncode == 0
    assert said.startswith("Port 9001 is in use")
    assert "until you press Ctrl-C" in said
    assert said.endswith("stopped\n")


def test_raw_opens_the_original_file(tmp_path: Path) -> None:
    with served("ui", _TRACE, "--raw", "--no-browser") as (link, process):
        assert fetched(link) == _TRACE.read_bytes()
        assert process.wait(timeout=20) == 0


def test_raw_has_the_times_of_the_file(database: Path) -> None:
    with traceql.open(database) as trace:
        (rank,) = trace.sql("SELECT path, file_offset_ns FROM trace WHERE rank = 0").rows()
        (step,) = trace.sql("SELECT step_id, gpu_ts FROM step WHERE rank = 0 LIMIT 1").rows()
    options = ("--raw", "--rank", "0", "--step", str(step["step_id"]), "--no-browser")
    with served("ui", database, *options) as (link, _):
        assert int(arguments(link)["ts"]) == step["gpu_ts"] - rank["file_offset_ns"]
        assert fetched(link) == Path(rank["path"]).read_bytes()


@pytest.mark.slow
def test_a_query_opens_at_its_slowest_row(database: Path) -> None:
    with traceql.open(database) as trace:
        (gap,) = trace.sql("SELECT ts, dur FROM gap WHERE rank = 0 ORDER BY dur DESC LIMIT 1")
    with served("run", "idle.gaps", database, "--rank", "0", "--ui") as (link, process):
        asked = arguments(link)
        assert fetched(link)
        assert process.wait(timeout=20) == 0
    assert (int(asked["ts"]), int(asked["dur"])) == (gap["ts"], gap["dur"])
    assert int(asked["visStart"]) < gap["ts"]
    assert gap["ts"] + gap["dur"] < int(asked["visEnd"])


def test_mistakes_are_one_line(database: Path, tmp_path: Path) -> None:
    with the_port():
        no_step = refusal("ui", database, "--step", "999")
        assert "no step 999; list the steps with traceql run steps.timeline" in no_step
        assert "no layer 99 in step 3" in refusal("ui", database, "--step", "3", "--layer", "99")
        assert "no such file" in refusal("ui", tmp_path / "nothing")
    assert "--layer needs --step" in refusal("ui", database, "--layer", "3", status=2)
    assert "neither a time (ts) nor a step" in refusal("run", "time.breakdown", database, "--ui")
    assert "option" in refusal("run", "kernels.top", database, "--ui", status=2)
    assert "returned no rows" in refusal("run", "idle.gaps", database, "--rank", "9", "--ui")
    no_database = refusal("export", "perfetto", tmp_path / "no.duckdb")
    assert "does not exist; create it with traceql load" in no_database
