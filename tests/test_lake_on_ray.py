"""Runs added by the machines of a Ray cluster: two nodes on this machine, with a token."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import databases
import executor_tasks as tasks
import psutil
import pytest
import traces
from click.testing import CliRunner, Result
from no_network import loopback_alone

import traceql
from traceql.cli import cli
from traceql.errors import LakeError, TraceqlError
from traceql.lake.add import add_run
from traceql.lake.check import check_lake
from traceql.lake.executor.on_ray import OnRay
from traceql.lake.executor.ray_cluster import Machine, alive_nodes
from traceql.lake.executor.task import Ended, Task, TaskLost
from traceql.lake.manifest import entries
from traceql.lake.places import store_at

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
]

RUNS = [databases.EXAMPLES / name for name in ("qwen3-8b-tp1-graph", databases.BATCH16)]
_STORE_BYTES = 80 << 20


# Ray looks each 3 s by default. A busy node is not lost: it may take 10 s for each answer.
_LOOKS_FOR_LOST_NODES = {"health_check_initial_delay_ms": 500, "health_check_period_ms": 500}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head with one processor; tests add another node."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        from ray.cluster_utils import Cluster  # whose processes read this variable

        head = {"num_cpus": 1, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
        found = Cluster(
            initialize_head=True, head_node_args=head | {"_system_config": _LOOKS_FOR_LOST_NODES}
        )
        yield found
        found.shutdown()


@pytest.fixture
def node(cluster: Any) -> Any:
    """Another node with one processor, which the test may lose; else it stays for the next."""
    if cluster.worker_nodes:
        return next(iter(cluster.worker_nodes))
    return cluster.add_node(num_cpus=1, object_store_memory=_STORE_BYTES)


def lose(cluster: Any, node: Any) -> None:
    """Kills a node, and waits until nothing of it can take a task or is sent one.

    Its processes outlive it by seconds, in which a driver that has used one before uses it again.
    The head misses the node only some seconds later.
    """
    processes = processes_of(node)
    cluster.remove_node(node, allow_graceful=False)
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive
    cluster.wait_for_nodes(timeout=60)


def lose_when(cluster: Any, node: Any, happened: Callable[[], bool]) -> Thread:
    """A thread, already started, that waits for something and then loses the node."""

    def wait_and_lose() -> None:
        tasks.wait_until(happened)
        lose(cluster, node)

    thread = Thread(target=wait_and_lose)
    thread.start()
    return thread


def processes_of(node: Any) -> list[psutil.Process]:
    """What a node has started: its agents, and the processes that run tasks."""
    (raylet,) = node.all_processes["raylet"]
    found: list[psutil.Process] = psutil.Process(raylet.process.pid).children(recursive=True)
    return found


def runs_a_task(node: Any) -> bool:
    with suppress(psutil.NoSuchProcess):  # it has ended since it was listed
        return any(process.name() == "ray::_told" for process in processes_of(node))
    return False


def task(work: Callable[[], Any], reads: Path = Path(__file__), timeout_s: float = 60) -> Task:
    return Task(work, reads, memory_bytes=1 << 30, timeout_s=timeout_s)


def all_ended(cluster: Any, *started: Task, wait_s: float = 60) -> list[Ended]:
    with OnRay(cluster.address, wait_s=wait_s) as executor:
        executor.rooms([Path(__file__)])
        for one in started:
            executor.start(one)
        return [executor.ended() for _ in started]


def add(cluster: Any, *words: object) -> Result:
    return CliRunner().invoke(cli, ["lake", "add", *map(str, words), "--ray", str(cluster.address)])


@pytest.mark.usefixtures("node")
def test_a_lake_has_the_same_rows_as_one_that_is_made_here(cluster: Any, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    told = add(cluster, *RUNS, "--lake", there)
    assert (told.exit_code, told.stderr.count("added: ")) == (0, len(RUNS)), told.output
    for run in RUNS:
        add_run(run, here)
    with traceql.open_lake(there) as one, traceql.open_lake(here) as other:
        names = {row["name"] for row in one.sql("SHOW TABLES").rows()} - {"lake_run"}
        assert names == {row["name"] for row in other.sql("SHOW TABLES").rows()} - {"lake_run"}
        for name in names:
            rows = f"FROM {name} ORDER BY ALL"
            assert one.sql(rows).arrow().equals(other.sql(rows).arrow()), name
    assert check_lake(str(there)).problems == ()
    assert "nothing to do" in add(cluster, RUNS[0], "--lake", there).stderr


def test_a_lake_is_whole_after_a_node_was_lost(cluster: Any, node: Any, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    losing = lose_when(cluster, node, lambda: runs_a_task(node))
    told = add(cluster, *RUNS, "--lake", lake)
    losing.join()
    assert told.exit_code == 0, told.output
    assert check_lake(str(lake)).problems == ()
    assert [one.about.ranks for one in entries(store_at(lake))] == [1, 2]


def test_a_task_runs_on_the_machine_that_has_its_file(
    cluster: Any, node: Any, tmp_path: Path
) -> None:
    mine, shared = tmp_path / "mine", tmp_path / "shared"
    executor = OnRay(cluster.address)
    with executor:
        head = next(id_ for id_ in alive_nodes(executor._ray) if id_ != node.node_id)
        executor._machines = [
            Machine(head, {shared: 1}),
            Machine(node.node_id, {shared: 1, mine: 1}),
        ]
        for _ in range(3):
            executor.start(task(tasks.ray_node, mine))
        assert [executor.ended().value for _ in range(3)] == [node.node_id] * 3
        lose(cluster, node)
        executor.start(task(tasks.ray_node, shared))
        executor.start(task(tasks.ray_node, mine))
        ended = {one.task.reads: one for one in (executor.ended(), executor.ended())}
    assert ended[shared].value == head
    assert str(ended[mine].error) == (
        "its task was lost 3 times: no machine that has the file is left"
    )


@pytest.mark.usefixtures("node")
def test_what_a_task_raises_comes_back(cluster: Any) -> None:
    (ended,) = all_ended(cluster, task(tasks.refuse))
    assert isinstance(ended.error, LakeError)
    (ended,) = all_ended(cluster, task(tasks.break_down))
    assert "UnicodeDecodeError" in str(ended.error)


def test_a_task_whose_process_died_is_started_again(cluster: Any, tmp_path: Path) -> None:
    (ended,) = all_ended(cluster, task(partial(tasks.die, tmp_path / "notes", times=2)))
    assert ended.value == "alive"
    assert len((tmp_path / "notes").read_text().split()) == 3
    (ended,) = all_ended(cluster, task(partial(tasks.die, tmp_path / "others")))
    assert isinstance(ended.error, TaskLost)
    assert str(ended.error) == (
        "its task was lost 3 times: its process was killed, perhaps for lack of memory"
    )
    assert len((tmp_path / "others").read_text().split()) == 3


def test_tasks_of_a_node_that_is_lost_are_run_elsewhere(
    cluster: Any, node: Any, tmp_path: Path
) -> None:
    notes, goes_on = tmp_path / "notes", tmp_path / "goes on"

    def lose_one_of_two() -> None:
        tasks.wait_until(lambda: notes.exists() and notes.read_text().count("\n") == 2)
        lose(cluster, node)
        goes_on.touch()

    losing = Thread(target=lose_one_of_two)
    losing.start()
    work = [partial(tasks.note_and_wait, notes, f"task {number}", goes_on) for number in range(2)]
    found = all_ended(cluster, *map(task, work))
    losing.join()
    assert [one.error for one in found] == [None, None]
    assert sorted(set(notes.read_text().splitlines())) == ["task 0", "task 1"]
    assert len(notes.read_text().splitlines()) == 3


def test_a_task_that_takes_too_long_is_given_up(cluster: Any) -> None:
    began = time.monotonic()
    (ended,) = all_ended(cluster, task(partial(tasks.sleep, 600), timeout_s=2))
    assert str(ended.error) == "it did not end in 2 s; allow more with --timeout"
    assert time.monotonic() - began < 120


def test_a_task_that_no_machine_takes_is_given_up(cluster: Any) -> None:
    small = task(partial(tasks.double, 2))
    executor = OnRay(cluster.address, wait_s=60)
    with executor:
        executor.rooms([Path(__file__)])
        executor.start(small)
        assert executor.ended().value == 4  # so that a process is there, whose start takes seconds
        executor._wait_s = 4
        executor.start(replace(small, memory_bytes=1 << 42))
        executor.start(small)
        ended = [executor.ended() for _ in range(2)]
    assert {str(one.error) for one in ended} == {
        "None",
        "no machine of the Ray cluster took it in 4 s; it needs a processor and 4096.0 GiB of "
        "memory",
    }


def test_a_task_that_needs_what_a_lost_node_had_is_given_up(cluster: Any) -> None:
    found = cluster.add_node(num_cpus=1, object_store_memory=_STORE_BYTES, memory=1 << 43)
    needs = replace(task(partial(tasks.double, 3)), memory_bytes=1 << 42)
    (ended,) = all_ended(cluster, needs, wait_s=30)
    assert ended.value == 6
    lose(cluster, found)
    (ended,) = all_ended(cluster, needs, wait_s=4)
    assert str(ended.error) == (
        "no machine of the Ray cluster took it in 4 s; it needs a processor and 4096.0 GiB of "
        "memory"
    )


def test_what_no_machine_has_is_refused_before_anything_is_done(
    cluster: Any, tmp_path: Path
) -> None:
    told = add(cluster, tmp_path / "none.json", "--lake", tmp_path / "lake")
    assert isinstance(told.exception, TraceqlError)
    assert "no such file or folder on any machine of the cluster" in str(told.exception)
    assert not (tmp_path / "lake").exists()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a cluster prints that has no network but 127.0.0.1, where that is permitted."""
    folder = tmp_path_factory.mktemp("alone")
    trace = traces.write(folder / "one.json", traces.kernel(ts=0, dur=5))
    script = Path(__file__).with_name("ray_alone.py")
    done = subprocess.run(
        [*loopback_alone(), sys.executable, str(script), str(trace), str(folder / "lake")],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    found = done.stdout.splitlines()
    assert len(found) == 2, done.stderr
    return found


def test_no_network_is_needed(alone: list[str]) -> None:
    if not loopback_alone():
        pytest.skip("this system permits no network namespace of one's own")
    assert alone[0] == "0"


def test_a_cluster_without_a_head_is_told(alone: list[str]) -> None:
    assert re.fullmatch(
        r"the head of the Ray cluster, [\d.]+:\d+, is gone; what was added is in the lake, and the "
        "same command adds the rest when there is a cluster",
        alone[1],
    )


def test_a_failed_load_is_a_row(cluster: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"traceEvents": [')
    told = add(cluster, bad, RUNS[0], "--lake", tmp_path / "lake")
    assert told.exit_code == 1
    assert sorted(one.status for one in entries(store_at(tmp_path / "lake"))) == ["failed", "ok"]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:1", "ConnectionRefusedError: [Errno 111] Connection refused"),
        ("ray://127.0.0.1:10001", "it is a Ray client server, which cannot run these tasks"),
    ],
)
def test_no_cluster_is_one_line(address: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(TraceqlError, match="no Ray cluster answers at") as raised:
        CliRunner().invoke(
            cli,
            ["lake", "add", str(RUNS[0]), "--lake", str(tmp_path / "lake"), "--ray", address],
            catch_exceptions=False,
        )
    assert reason in str(raised.value)
    assert not (tmp_path / "lake").exists()


def test_another_token_is_refused(cluster: Any, tmp_path: Path) -> None:
    words = ["lake", "add", str(RUNS[0]), "--lake", str(tmp_path / "lake")]
    told = subprocess.run(
        [sys.executable, "-m", "traceql", *words, "--ray", cluster.address],
        env=os.environ | {"RAY_AUTH_TOKEN": "f" * 32},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert told.returncode == 1
    assert "no Ray cluster answers at" in told.stderr.splitlines()[-1]
    assert not (tmp_path / "lake").exists()
