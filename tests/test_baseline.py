"""traceql baseline: runs that are kept without their traces."""

import json
from pathlib import Path

import databases
import pyarrow.parquet as pq
import pytest
from command_line import called, output, refusal
from repeats import EXAMPLE, OTHER_QUIET, saved, side

from traceql.runs.compare import Comparison
from traceql.runs.compare.sides import RESULTS, runs_of


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def example() -> Path:
    return Path(databases.trace(EXAMPLE).path)


@pytest.mark.slow
def test_a_saved_run_is_compared_as_the_run_itself() -> None:
    output_ = called("baseline", "save", "main", example())
    assert output_.returncode == 0
    kept, run = runs_of(["main"]), runs_of([example()])
    for name in RESULTS:
        assert kept[0].profile[name].equals(run[0].profile[name]), name
    assert kept[0].database is None
    with Comparison(kept, run) as comparison:
        assert comparison.differences == ()
        assert {row["change_pct"] for row in comparison.sql("FROM change")} == {0}


def test_saving_says_what_was_written_and_what_is_missing() -> None:
    done = called("baseline", "save", "main", example())
    assert done.stdout.decode().startswith("wrote main: 1 run, ")
    assert done.stderr.decode() == "! 1 run: a verdict needs 4, better 5\n"
    saved(Path("five"), side())
    done = called("baseline", "save", "again", "five")
    assert (done.stderr, done.stdout.decode().split(",")[0]) == (b"", "wrote again: 5 runs")


def test_a_baseline_is_replaced_only_on_request() -> None:
    saved(Path("main"), side())
    told = refusal("baseline", "save", "main", example())
    assert told == "traceql: main is a baseline already; --replace replaces it"
    assert len(runs_of(["main"])) == 5
    assert called("baseline", "save", "main", example(), "--replace").returncode == 0
    assert len(runs_of(["main"])) == 1


def test_what_is_no_baseline_is_never_replaced_or_shown() -> None:
    Path("src").mkdir()
    Path("src/main.py").write_text("print()", encoding="utf-8")
    told = refusal("baseline", "save", "src", example(), "--replace")
    assert told == "traceql: src exists and is not a baseline; give another name"
    assert "src is not a baseline; " in refusal("baseline", "show", "src")
    assert Path("src/main.py").read_text(encoding="utf-8") == "print()"


def test_runs_that_no_gate_would_compare_are_reported() -> None:
    saved(Path("one"), side(facts={"gpu.name": "NVIDIA H100"}))
    saved(Path("two"), side(OTHER_QUIET))
    done = called("baseline", "save", "main", "one", "two")
    assert done.returncode == 0
    told = "! these runs are not repeats, so gate rejects them: they differ in GPU\n"
    assert done.stderr.decode() == told


def test_show_says_what_a_baseline_holds() -> None:
    saved(Path("main"), side(facts={"version.vllm": "0.25.0", "config.hidden_size": "4096"}))
    said = output("baseline", "show", "main").splitlines()
    assert said[0].startswith("main: 5 runs, ")
    assert said[1].startswith("saved 20")
    assert said[2] == "runs: run0, run1, run2, run3, run4"
    assert "gpu.name: NVIDIA H200" in said
    assert "version.vllm: 0.25.0" in said
    assert "and 1 settings of the model and the engine" in said
    (row,) = [line.split() for line in said if line.strip().startswith("decode, 3 to 4 rows")]
    assert row[-5:-1] == ["rows", "5", "4", "4"]


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"format": 1, "runs": "ab"}', b'{"format": 1, "runs": [1]}', b"\xff\xfe"],
)
def test_a_damaged_manifest_or_one_of_another_version_is_one_line(content: bytes) -> None:
    manifest = saved(Path("main"), side()) / "baseline.json"
    other = json.loads(manifest.read_text("utf-8")) | {"format": 99}
    manifest.write_bytes(content)
    told = refusal("baseline", "show", "main")
    assert told == "traceql: main/baseline.json is damaged; save the baseline again"
    manifest.write_text(json.dumps(other), "utf-8")
    words = ("gate", "main", "main", "--fail-on", "step > 2%")
    assert "another version of traceql (format 99, this one reads 1)" in refusal(*words, status=2)


def test_a_damaged_table_is_one_line() -> None:
    folder = saved(Path("main"), side())
    (folder / "metric.parquet").write_bytes(b"PAR1")
    assert "missing or damaged" in refusal("baseline", "show", "main")
    pq.write_table(pq.read_table(folder / "lost.parquet"), folder / "metric.parquet")
    assert "has other columns" in refusal("baseline", "show", "main")
    (folder / "metric.parquet").unlink()
    words = ("gate", "main", "main", "--fail-on", "step > 2%")
    assert "missing or damaged" in refusal(*words, status=2)


def test_a_baseline_has_no_secrets_and_no_folders_of_the_machine() -> None:
    facts = {
        "engine.hf_token": "hf_secret",
        "engine.model": "runs/mine/model",
        "engine.master_addr": "10.1.2.3",
        "resolved.profiler_config.torch_profiler_dir": "runs/.scratch",
        "config._name_or_path": "runs/mine/model",
        "version.vllm": "0.25.0",
    }
    saved(Path("main"), side(facts=facts))
    kept = {row["name"] for row in runs_of(["main"])[0].profile["fact"].to_pylist()}
    assert kept & set(facts) == {"version.vllm"}
    content = b"".join(file.read_bytes() for file in Path("main").iterdir())
    for word in (b"hf_secret", b"runs/mine", b".scratch", str(databases.ROOT).encode()):
        assert word not in content
