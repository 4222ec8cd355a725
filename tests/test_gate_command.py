"""`traceql gate` as users call it: exit status, files, traceql-gate.toml, the example workflow."""

import shlex
from pathlib import Path

import databases
import pytest
import yaml
from command_line import called, refusal
from repeats import OTHER_LOUD, OTHER_QUIET, PLANTED, SLOWER_DECODE, saved, side

from traceql.runs.gate.criterion import metrics

pytestmark = pytest.mark.slow

_DOCUMENT = databases.ROOT / "docs" / "gate.md"
_CONFIG = databases.ROOT / "docs" / "examples" / "traceql-gate.toml"


@pytest.fixture
def sides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the baselines base, same, slower, loud and other_gpu."""
    monkeypatch.chdir(tmp_path)
    saved(Path("base"), side())
    saved(Path("same"), side(OTHER_QUIET))
    saved(Path("slower"), side(OTHER_QUIET, roles=SLOWER_DECODE))
    saved(Path("loud"), side(OTHER_LOUD))
    saved(Path("other_gpu"), side(OTHER_QUIET, facts={"gpu.name": "NVIDIA H100"}))
    return tmp_path


@pytest.mark.parametrize(
    ("new", "status", "first"),
    [
        ("same", 0, "✓ no regression"), ("slower", 1, "✗ regression"),
        ("loud", 3, "? inconclusive"), ("other_gpu", 3, "- not comparable"),
    ],
)  # fmt: skip
def test_the_exit_status_and_the_first_line_are_the_answer(
    sides: Path, new: str, status: int, first: str
) -> None:
    done = called("gate", "base", new, "--fail-on", "decode.step > 2%")
    assert (done.returncode, done.stderr) == (status, b"")
    first_line = done.stdout.decode().splitlines()[0]
    assert first_line == f"{first} in 1 criterion (5 runs of base, 5 of new)"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("gate base same --fail-on 'stepp > 2%'", "there is no metric 'stepp'"),
        ("gate base same", "no criterion; add --fail-on"),
        ("gate base same slower --fail-on 'step > 2%'", "name two sides"),
        ("gate base base --fail-on 'step > 2%'", "are the same recording"),
        (
            "gate base same --fail-on 'step > 2%' --write gate.md --write no/x.md",
            "cannot write no/x",
        ),
    ],
)
def test_what_cannot_be_used_is_one_line_and_never_looks_like_a_regression(
    sides: Path, words: str, told: str
) -> None:
    done = called(*shlex.split(words))
    assert done.returncode == 2
    assert told in done.stderr.decode().splitlines()[-1]
    assert not Path("gate.md").exists()  # either all files of an answer are written, or none


def test_the_example_of_the_document_is_what_the_gate_says() -> None:
    example = _DOCUMENT.read_text(encoding="utf-8").split("```\n")[3]
    words = ["--fail-on", "decode.step > 2%", "--fail-on", "decode.gate_up_proj > 5%"]
    done = called("gate", PLANTED / "tp2", PLANTED / "tp2-piecewise-graphs", *words, COLUMNS="130")
    assert done.stdout.decode() == example


def test_an_error_that_is_unexpected_is_no_regression(
    sides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("traceql.runs.gate.decision.gate", broken)
    done = called("gate", "base", "same", "--fail-on", "step > 2%")
    assert done.returncode == 2
    assert b"ZeroDivisionError" in done.stderr


def test_each_run_can_be_named(sides: Path) -> None:
    for number, run in enumerate(side(OTHER_QUIET)):
        saved(Path(f"run{number}"), [run])
    news = [word for number in range(5) for word in ("--new", f"run{number}")]
    for words in (["--base", "base", *news], [*news, "--base", "base"], ["base", *news]):
        assert called("gate", *words, "--fail-on", "step > 2%").returncode == 0
    assert called("gate", "--base", "base", "slower", "--fail-on", "step > 2%").returncode == 1


def test_the_answer_can_be_written_in_several_forms_at_once(sides: Path) -> None:
    files = ["gate.md", "gate.xml", "gate.json", "gate.txt"]
    words = [word for file in files for word in ("--write", file)]
    done = called("gate", "base", "slower", "--fail-on", "decode.step > 2%", *words)
    assert done.returncode == 1
    for file, form in zip(files, ("markdown", "junit", "json", "text"), strict=True):
        same = called("gate", "base", "slower", "--fail-on", "decode.step > 2%", "--format", form)
        written = Path(file).read_text(encoding="utf-8")
        assert written == same.stdout.decode(), form
    assert done.stdout.decode() == Path("gate.txt").read_text(encoding="utf-8")


# traceql-gate.toml.


def test_the_file_of_the_repository_is_found_from_a_folder_below(
    sides: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sides / ".git").mkdir()
    below = sides / "a" / "b"
    below.mkdir(parents=True)
    (sides / "traceql-gate.toml").write_text(
        'fail_on = ["decode.step > 2%"]\nbaseline = "base"\n', encoding="utf-8"
    )
    monkeypatch.chdir(below)
    assert called("gate", "../../slower").returncode == 1
    assert called("gate", "../../same").returncode == 0
    # The command line counts more than the file.
    assert called("gate", "../../slower", "--fail-on", "step > 9%").returncode == 0
    assert called("gate", "../../slower", "../../same").returncode == 0


def test_a_difference_can_be_accepted_in_the_file(sides: Path) -> None:
    content = 'fail_on = ["step > 2%"]\nbaseline = "base"\naccept = ["gpu.name"]\n'
    Path("mine.toml").write_text(content, encoding="utf-8")
    assert called("gate", "other_gpu", "--config", "mine.toml").returncode == 0
    done = called("gate", "other_gpu", "--config", "mine.toml", "--accept", "model")
    assert done.returncode == 3


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("fail_om = []", "unknown key 'fail_om'; did you mean 'fail_on'?"),
        ("fail_on = [2]", "fail_on is not a list of texts"),
        ('fail_on = ["step > 2"]', "'step > 2' has no percent sign"),
        ("fail_on = [", "is not TOML"),
        ('fail_on = ["step > 2%"]\nbaseline = "nowhere"', "nowhere is not a baseline"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_what_is_wrong(
    sides: Path, content: str, told: str
) -> None:
    Path("traceql-gate.toml").write_text(content, encoding="utf-8")
    assert told in refusal("gate", "same", status=2)


# The example for GitHub.


def test_the_commands_of_the_example_workflow_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traceql-gate.toml").write_text(_CONFIG.read_text("utf-8"), "utf-8")
    jobs = yaml.safe_load(_CONFIG.with_name("gate-workflow.yml").read_text("utf-8"))["jobs"]
    steps = [step for name in ("baseline", "gate") for step in jobs[name]["steps"]]
    commands = [
        shlex.split(line)
        for step in steps
        for line in step.get("run", "").splitlines()
        if line.startswith("traceql ")
    ]
    assert [words[1] for words in commands] == ["baseline", "baseline", "gate"]
    save, show, decide = (words[1:] for words in commands)
    assert {"runs", "traceql-baseline"} <= {*save, *decide, "traceql-baseline"}
    saved(tmp_path / "runs", side())
    for words in (save, show):
        assert called(*words).returncode == 0, words
    for new, status in ((side(OTHER_QUIET), 0), (side(OTHER_QUIET, slower=1.1), 1)):
        for file in (tmp_path / "runs").iterdir():
            file.unlink()
        saved(tmp_path / "runs", new)
        done = called(*decide)
        assert done.returncode == status, done.stderr
        for name in ("gate.md", "gate.xml", "gate.json"):
            assert (tmp_path / name).stat().st_size > 0


def test_the_document_has_every_metric_and_the_examples() -> None:
    told = _DOCUMENT.read_text(encoding="utf-8")
    for name in metrics():
        assert f"`{name}`" in told, name
    assert _CONFIG.read_text(encoding="utf-8") in told
    assert "gate-workflow.yml" in told
