"""Runs added by the machines of a Ray cluster: two nodes on this machine, with a token."""

import subprocess
import sys
from collections.abc import Callable, Iterator
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
from traceql.errors import TraceqlError
from traceql.runs.lake.add import add_run
from traceql.runs.lake.executor import Task
from traceql.runs.lake.maintenance import check_lake
from traceql.runs.lake.on_ray import Machine, OnRay, alive_nodes

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
    (raylet,) = node.all_processes["raylet"]
    processes = psutil.Process(raylet.process.pid).children(recursive=True)
    cluster.remove_node(node, allow_graceful=False)
    _, alive = psutil.wait_procs(processes, timeout=60)
    assert not alive
    cluster.wait_for_nodes(timeout=60)


def task(work: Callable[[], Any], reads: Path = Path(__file__)) -> Task:
    return Task(work, reads, memory_bytes=1 << 30, timeout_s=60)


def add(address: str, *words: object) -> Result:
    return CliRunner().invoke(cli, ["lake", "add", *map(str, words), "--ray", address])


@pytest.mark.usefixtures("node")
def test_a_lake_has_the_same_rows_as_one_that_is_made_here(cluster: Any, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    told = add(cluster.address, *RUNS, "--lake", there)
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
    assert "skipped: " in add(cluster.address, RUNS[0], "--lake", there).stderr


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
        assert [executor.next_result().value for _ in range(3)] == [node.node_id] * 3
        lose(cluster, node)
        executor.start(task(tasks.ray_node, shared))
        executor.start(task(tasks.ray_node, mine))
        ended = {one.task.reads: one for one in (executor.next_result(), executor.next_result())}
    assert ended[shared].value == head
    assert str(ended[mine].error) == (
        "its task was lost 3 times: no machine that has the file is left"
    )


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
    with OnRay(cluster.address, wait_s=60) as executor:
        executor.resources([Path(__file__)])
        for one in work:
            executor.start(task(one))
        found = [executor.next_result() for _ in work]
    losing.join()
    assert [one.error for one in found] == [None, None]
    assert sorted(set(notes.read_text().splitlines())) == ["task 0", "task 1"]
    assert len(notes.read_text().splitlines()) == 3


_ALONE = """
import subprocess, sys
from ray.cluster_utils import Cluster
head = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=head)
words = [sys.executable, "-m", "traceql", "lake", "add", *sys.argv[1:], "--ray", cluster.address]
status = subprocess.run(words).returncode
cluster.shutdown()
sys.exit(status)
"""


def test_no_network_is_needed(tmp_path: Path) -> None:
    """A cluster that has no network but 127.0.0.1, where that is permitted."""
    if not loopback_alone():
        pytest.skip("this system permits no network namespace of one's own")
    trace = traces.write(tmp_path / "one.json", traces.kernel(ts=0, dur=5))
    words = [sys.executable, "-c", _ALONE, str(trace), "--lake", str(tmp_path / "lake")]
    subprocess.run([*loopback_alone(), *words], timeout=300, check=True)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:1", "ConnectionRefusedError: [Errno 111] Connection refused"),
        ("ray://127.0.0.1:10001", "it is a Ray client server, which cannot run these tasks"),
    ],
)
def test_no_cluster_is_one_line(address: str, reason: str, tmp_path: Path) -> None:
    raised = add(address, RUNS[0], "--lake", tmp_path / "lake").exception
    assert isinstance(raised, TraceqlError)
    assert f"no Ray cluster answers at {address}" in str(raised)
    assert reason in str(raised)
    assert not (tmp_path / "lake").exists()
