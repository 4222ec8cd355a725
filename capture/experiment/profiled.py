"""Records a point under a profiler: PyTorch's, Nsight Systems or Nsight Compute."""

import asyncio
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from capture.attach import attach
from capture.errors import PlanInvalid, PointFailed
from capture.experiment.plan import Plan
from capture.experiment.points import Point
from capture.experiment.vllm_server import RunningServer
from capture.profilers import PROFILERS, ProfilerOptions
from capture.server import Server
from capture.versions import annotates_in_detail
from capture.worker_extension import QUALIFIED_NAME
from capture.workload import KNOWN_TOKENS, Workload, drive, random_workload

_TRACES = "traces"


def require_tool(tool: str) -> None:
    """Raises PlanInvalid if the profiler of a plan is not installed."""
    program = PROFILERS[tool].program
    if program and shutil.which(program) is None:
        raise PlanInvalid(f"record.tool is {tool}, which is not installed; leave it out for torch")


def profiler_wrapper(tool: str, folder: Path) -> list[str]:
    """The command line that a server is started with, for a profiler outside of it."""
    return list(PROFILERS[tool].command(ProfilerOptions(), folder, repeats=True))


def profiler_arguments(tool: str, folder: Path, version: str) -> list[str]:
    """The arguments of `vllm serve` by which a profiler can be switched on."""
    profiler = PROFILERS[tool]
    config = profiler.engine_arguments(ProfilerOptions(), folder / _TRACES)["profiler_config"]
    if profiler.program:
        return ["--profiler-config", json.dumps(config)]
    if annotates_in_detail(version):
        config["detailed_trace_annotation"] = True
    return ["--profiler-config", json.dumps(config), "--worker-extension-cls", QUALIFIED_NAME]


def profile_point(
    point: Point, server: RunningServer, folder: Path, plan: Plan, warn: Callable[[str], None]
) -> None:
    """Warms a point up, then sends its requests again and again, and records some of that time.

    Raises:
        CaptureError: there is no recording.
    """
    workload = random_workload(
        vocab_size=KNOWN_TOKENS,
        prompts=point.requests,
        prompt_tokens=point.prompt_tokens,
        output_tokens=point.output_tokens,
        concurrency=point.in_flight,
        seed=plan.seed,
    )
    asyncio.run(_warm_up(server.url, workload))
    server.reset_caches()
    if PROFILERS[plan.record.tool].program:
        asyncio.run(_record_outside(server.url, workload, plan.record.seconds))
        return
    attached = attach(
        server.url,
        folder,
        seconds=plan.record.seconds,
        workload=workload,
        after_first_tokens=True,
        traces=server.folder / _TRACES,
        command=server.command,
        warn=warn,
    )
    if attached.traces_elsewhere:
        raise PointFailed(attached.traces_elsewhere)


async def _warm_up(url: str, workload: Workload) -> None:
    async with Server(url) as server:
        await server.facts()
        await drive(workload, server.stream)


async def _record_outside(url: str, workload: Workload, seconds: float) -> None:
    """Lets the profiler around the server record; its file lies beside the server's log."""
    async with Server(url) as server:
        await server.facts()
        await server.start_profiler()
        try:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline:
                await drive(workload, server.stream)
        finally:
            await server.stop_profiler()
