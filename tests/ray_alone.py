"""Adds a run to a lake on a Ray cluster of its own, which then loses its head.

    python ray_alone.py RUN LAKE

Prints a line for each: the exit status of the command, and what it was told of the head.
"""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from threading import Thread
from time import sleep

import executor_tasks as tasks
from ray.cluster_utils import Cluster

from traceql.errors import TraceqlError
from traceql.runs.lake.executor.on_ray import OnRay
from traceql.runs.lake.executor.task import Task


def main(run: str, lake: str) -> None:
    head = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    command = [sys.executable, "-m", "traceql", "lake", "add", run, "--lake", lake]
    print(subprocess.run([*command, "--ray", cluster.address], check=False).returncode, flush=True)
    print(_told_without_head(cluster, Path(f"{lake}-notes")), flush=True)
    os._exit(0)  # Ray would wait for the head


def _told_without_head(cluster: Cluster, notes: Path) -> str:
    def lose() -> None:
        while not notes.exists():
            sleep(0.1)
        cluster.head_node.kill_gcs_server()

    Thread(target=lose, daemon=True).start()
    work = partial(tasks.note_and_sleep, notes, "begun", 600)
    try:
        with OnRay(cluster.address) as executor:
            executor.resources([notes.parent])
            executor.start(Task(work, notes.parent, memory_bytes=1 << 20, timeout_s=600))
            return str(executor.next_result())
    except TraceqlError as error:
        return str(error)


if __name__ == "__main__":
    main(*sys.argv[1:])
