"""`traceql diff` as users call it, on real runs and on the recordings of planted changes."""

import json
import re
from pathlib import Path

import databases
import pytest
from command_line import called, output, refusal
from repeats import PLANTED

pytestmark = pytest.mark.slow

TRACES = databases.ROOT / "tests" / "data" / "planted-traces"
TP1, SERVING = "qwen3-8b-tp1-graph", "qwen3-8b-tp2-serving"


def _screen(base: str, new: str, *options: str) -> str:
    """What `traceql diff` prints of two groups of five recordings, in as wide as a terminal."""
    done = called("diff", PLANTED / base, PLANTED / new, *options, COLUMNS="160")
    assert done.returncode == 0
    return done.stdout.decode()


def _answer(screen: str, phase: str) -> str:
    """The first paragraph about a phase."""
    paragraphs = re.sub("\n  ", " ", screen).splitlines()
    return next(one for one in paragraphs if f"{phase} steps" in one.lower())


def _causes(screen: str) -> dict[str, str]:
    """The lines of the waterfall by cause."""
    lines = re.findall(r"^  [+\u2212]?[\d.,]+ [nµm]?s  (.+?)  +(.*)$", screen, re.MULTILINE)
    return dict(lines)


def test_an_all_reduce_that_was_turned_off_is_named_and_the_products_are_not() -> None:
    screen = _screen("tp2", "tp2-nccl-all-reduce")
    causes = _causes(screen)
    for role in ("attn_allreduce", "mlp_allreduce"):
        assert causes[f"{role} (transfer)"].endswith("slower")
    assert "mlp_allreduce (transfer)" in _answer(screen, "decode")
    assert not re.search(r"(qkv|o|gate_up|down)_proj", _answer(screen, "decode"))
    assert re.search(r"mlp_allreduce: .*cross_device_reduce.* → ncclDevKernel_AllReduce", screen)
    assert "engine.disable_custom_all_reduce not set → true" in screen
    document = (databases.ROOT / "docs" / "compare.md").read_text(encoding="utf-8")
    assert " ".join(document.split("```\n")[5].split()) in " ".join(screen.split())


def test_a_busy_host_is_waited_for_and_its_rank_is_named() -> None:
    screen = _screen("tp2", "tp2-busy-host-of-rank1")
    answer = _answer(screen, "decode")
    assert answer.startswith("✗ Decode steps are slower")
    assert "waiting" in answer
    assert re.search(r"Rank 1 \(host\): each GPU loses .* more", screen)
    assert "No difference of set-up is known." in screen


def test_repeats_can_be_named_one_by_one_or_by_their_folder(tmp_path: Path) -> None:
    path = databases.trace(TP1).path
    text = output("diff", "--base", path, "--base", path, "--new", path, "--format", "json")
    runs = json.loads(text)["runs"]
    assert [len(runs["base"]), len(runs["new"])] == [2, 1]
    for number in range(2):
        (tmp_path / f"{number}.duckdb").write_bytes(path.read_bytes())
    text = output("diff", tmp_path, path, "--format", "json")
    assert len(json.loads(text)["runs"]["base"]) == 2


def test_rows_of_a_query_and_of_a_statement() -> None:
    base, new = (databases.trace(name).path for name in (TP1, SERVING))
    rows = json.loads(output("diff", base, new, "--query", "setup", "--format", "json"))
    assert {"name", "base", "new"} <= rows[0].keys()
    statement = "SELECT COUNT(*) AS kernels FROM new.kernel"
    text = output("diff", base, new, "--sql", statement, "--format", "csv")
    kernels = len(databases.trace(SERVING).sql("FROM kernel"))
    assert text == f"kernels\n{kernels}\n"


def test_wrong_use_and_bad_input_are_one_line(tmp_path: Path) -> None:
    path = databases.trace(TP1).path
    assert "name two sides" in refusal("diff", path, status=2)
    report = tmp_path / "report.html"
    assert "does not exist" in refusal("diff", path, tmp_path / "missing", "--report", report)
    assert not report.exists()
    assert "no query 'waterfal'; did you mean 'waterfall'" in refusal(
        "diff", path, path, "--query", "waterfal"
    )
    (tmp_path / "notes.txt").write_text("nothing")
    done = called("diff", path, tmp_path / "notes.txt")
    loading, told = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout) == (1, b"")
    assert loading.startswith("loading ")
    assert "notes.txt: not a trace" in told


@pytest.mark.slow
def test_from_traces_of_ten_starts_to_the_layer_that_is_slow() -> None:
    done = called("diff", TRACES / "tp1", TRACES / "tp1-slow-layer5-down_proj")
    screen = done.stdout.decode()
    assert done.returncode == 0
    assert re.search(r"Not all layers changed alike: layer 5 down_proj \+\d", screen)
    assert _causes(screen)["down_proj"].endswith("slower")
    assert "down_proj" in _answer(screen, "decode")
    assert "No difference of set-up is known." in screen


def test_a_start_without_a_recording_does_not_vanish(tmp_path: Path) -> None:
    good = tmp_path / "runs" / "1"
    good.mkdir(parents=True)
    (good / "run.json").write_text("{}")
    (tmp_path / "runs" / "2").mkdir()
    told = refusal("diff", tmp_path / "runs", databases.trace(TP1).path)
    assert "2 is among the run directories of" in told
    assert "has no run.json" in told
