"""Capture as real processes: help without its packages, and what a dead engine leaves behind."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from capture.processes import end_process_tree, remove_shared_memory, shared_memory
from capture.server import server_process

# What only capture needs, at the latest in the processes that it starts.
_CAPTURE_PACKAGES = ("aiohttp", "huggingface_hub", "psutil", "pynvml", "torch", "vllm", "yaml")
_WITHOUT_PACKAGES = f"""
import sys
sys.argv[0] = "traceql"
for name in {_CAPTURE_PACKAGES}:
    sys.modules[name] = None
from traceql.cli import main
main()
"""
_SHARED_MEMORY = Path("/dev/shm")

needs_linux = pytest.mark.skipif(not _SHARED_MEMORY.is_dir(), reason="needs Linux's /dev/shm")


def called_without_packages(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", _WITHOUT_PACKAGES, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


_DEAF = """
import signal, subprocess, sys, time
from capture.processes import end_group_with_parent
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end_group_with_parent(grace_s=0.5)
subprocess.Popen(["sleep", "100"])
print("ready", flush=True)
time.sleep(100)
"""
_ITS_PARENT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True)
time.sleep(100)
"""


@pytest.mark.slow
@needs_linux
def test_a_process_that_hears_no_signal_ends_with_its_parent_and_with_what_it_started() -> None:
    command = [sys.executable, "-c", _ITS_PARENT, _DEAF]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "ready\n"
        started = psutil.Process(parent.pid).children(recursive=True)
        assert len(started) == 2
        parent.kill()
        _, alive = psutil.wait_procs(started, timeout=30)
        assert not alive


@pytest.mark.parametrize("command", [["run"], ["attach"]], ids=["run", "attach"])
def test_help_needs_no_package_of_capture(command: list[str]) -> None:
    shown = called_without_packages("capture", *command, "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith(" ".join(["Usage: traceql capture", *command]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "missing"),
    [
        (["capture", "run", "--model", "qwen3-tiny", "--dummy-weights"], "psutil is"),
        (["capture", "attach", "http://localhost:9"], "aiohttp, huggingface_hub, psutil are"),
        (["experiment", "run", "plan.yaml"], "yaml is"),
    ],
)
def test_a_command_names_the_packages_that_it_lacks(
    command: list[str], missing: str, tmp_path: Path
) -> None:
    done = called_without_packages(*command, "-o", tmp_path / "run")
    assert (done.returncode, done.stdout) == (1, "")
    install = "run pip install 'traceql[capture]'"
    assert done.stderr == f"traceql: {missing} not installed; {install}\n"
    assert not (tmp_path / "run").exists()


_ENGINE = """
import os, signal, subprocess, sys
from pathlib import Path

Path("/dev/shm/{memory}").write_bytes(bytes(4096))
hold = "import sys, time; memory = open(sys.argv[1]); print('open', flush=True); time.sleep(60)"
worker = subprocess.Popen(
    [sys.executable, "-c", hold, "/dev/shm/{memory}"], stdout=subprocess.PIPE, text=True
)
worker.stdout.readline()
print("worker", worker.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def vllm_that_is_killed(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder with a package vllm whose engine is killed, and the name of its shared memory."""
    memory = f"vllm_dist_test_{os.getpid()}"
    folder = tmp_path / "packages"
    (folder / "vllm" / "engine").mkdir(parents=True)
    (folder / "vllm" / "__init__.py").touch()
    (folder / "vllm" / "engine" / "__init__.py").touch()
    (folder / "vllm" / "engine" / "arg_utils.py").write_text(_ENGINE.replace("{memory}", memory))
    (folder / "vllm-0.32.0.dist-info").mkdir()
    (folder / "vllm-0.32.0.dist-info" / "METADATA").write_text("Name: vllm\nVersion: 0.32.0\n")
    yield folder, memory
    (_SHARED_MEMORY / memory).unlink(missing_ok=True)


@needs_linux
def test_a_killed_engine_leaves_no_process_and_no_shared_memory(
    tmp_path: Path, vllm_that_is_killed: tuple[Path, str]
) -> None:
    packages, memory = vllm_that_is_killed
    run = tmp_path / "run"
    path = os.pathsep.join([str(packages), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-m", "traceql", "capture", "run", "--model", "qwen3-tiny",
         "--dummy-weights", "-o", str(run)],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path},
        timeout=120,
    )  # fmt: skip
    said = done.stderr.splitlines()[-1]
    assert said == (
        "traceql: the engine failed: its process ended without an error message "
        f"(log: {run / 'log.txt'})"
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert json.loads((run / "run.json").read_text())["status"] == "incomplete"
    (worker,) = (int(line.split()[1]) for line in (run / "log.txt").read_text().splitlines())
    assert not psutil.pid_exists(worker)
    assert not (_SHARED_MEMORY / memory).exists()


@needs_linux
def test_only_shared_memory_that_no_process_has_open_is_removed() -> None:
    names = [f"psm_test_{os.getpid()}_{use}" for use in ("mapped", "left", "older")]
    mapped, left, older = (_SHARED_MEMORY / name for name in names)
    older.touch()
    before = shared_memory()
    left.touch()
    mapped.write_bytes(bytes(4096))
    hold = (
        "import mmap, sys; file = open(sys.argv[1], 'r+b'); memory = mmap.mmap(file.fileno(), 0);"
        "file.close(); print('mapped', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(mapped)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            remove_shared_memory(before)
            assert [file.exists() for file in (mapped, left, older)] == [True, False, True]
        finally:
            process.kill()
    try:
        remove_shared_memory(before)
        assert [file.exists() for file in (mapped, older)] == [False, True]
    finally:
        mapped.unlink(missing_ok=True)
        older.unlink()


@pytest.mark.slow
def test_the_process_of_a_local_server_is_found_by_its_port(tmp_path: Path) -> None:
    """Also if a fork of it has inherited the socket, as engines of vLLM may."""
    listen = (
        "import os, socket, time; listening = socket.create_server(('127.0.0.1', 0));"
        "os.fork() or os.chdir('/') or time.sleep(60);"
        "print(listening.getsockname()[1], flush=True); input()"
    )
    command = [sys.executable, "-c", listen, "--profiler-config", "{}"]
    settings = os.environ | {"NCCL_DEBUG": "INFO"}
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env=settings,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        try:
            found = server_process(f"http://127.0.0.1:{port}")
        finally:
            end_process_tree(process)
    assert found is not None
    assert found[:2] == (command, tmp_path.resolve())
    assert found.environment["NCCL_DEBUG"] == "INFO"
    assert server_process("http://another-host:8000") is None
