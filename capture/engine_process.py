"""The process that runs vLLM: it starts the engine, runs the passes and writes their files.

It reads the plan as JSON from standard input. It writes progress and its result as one JSON object
per line to the file descriptor that the plan names. All output of vLLM goes to the log.
"""

import asyncio
import json
import os
import signal
import sys
import traceback
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from capture import scheduler
from capture.engine_options import Plan, with_detailed_annotation
from capture.environment import torch_libraries, versions
from capture.errors import CaptureError
from capture.metrics import Passes, pass_notes, stall_ns, write_results
from capture.processes import end_with_parent
from capture.run_directory import rank_folder
from capture.worker_extension import WINDOW_CLOSED
from capture.workload import (
    Chunk,
    Pass,
    Request,
    Stream,
    Workload,
    drive,
    require_fitting,
    require_token_ids,
)

_POLL_S = 0.2
# An unprofiled pass in which kernels were compiled is repeated, up to this many passes in all.
_UNPROFILED_PASSES = 3


class Events:
    """Sends progress and the result to the process that started this one."""

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "w", buffering=1)

    def phase(self, name: str, count: int = 0, total: int = 0) -> None:
        self.send(phase=name, count=count, total=total)

    def send(self, **message: Any) -> None:
        self._file.write(json.dumps(message) + "\n")


async def capture_engine(plan: Plan, events: Events) -> dict[str, Any]:
    """Starts the engine and runs all passes; returns the facts about the engine for run.json."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.platforms import current_platform
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.async_llm import AsyncLLM

    events.phase("engine")
    arguments = AsyncEngineArgs(**with_detailed_annotation(plan.engine_arguments))
    config = arguments.create_engine_config(UsageContext.ENGINE_CONTEXT)
    if config.scheduler_config.scheduler_cls is None:
        config.scheduler_config.scheduler_cls = scheduler.QUALIFIED_NAME
    model = config.model_config
    workload = plan.workload(model.get_vocab_size())
    if plan.engine_arguments.get("skip_tokenizer_init"):
        require_token_ids(workload)
    require_fitting(workload, max_model_len=model.max_model_len, vocab_size=model.get_vocab_size())
    engine = AsyncLLM.from_vllm_config(config)
    try:
        folder = str(plan.scratch)
        await engine.collective_rpc("capture_install", args=(folder, plan.annotate_layers))
        if current_platform.is_cpu() and config.parallel_config.pipeline_parallel_size > 1:
            # On a CPU, vLLM allocates the buffers of pipeline ranks only in a dummy batch.
            await engine.collective_rpc("execute_dummy_batch")
        events.phase("warmup")
        await engine.collective_rpc("capture_warm")
        passes = await _passes(plan, workload, engine, events)
    finally:
        engine.shutdown()
        # vLLM shuts down again when the interpreter exits, which would fail with a traceback.
        engine.shutdown = lambda **_: None
    return write_results(plan, workload, passes) | {
        "model_config": model.hf_config.to_dict(),
        "engine_config": _plain(config),
        "platform": current_platform.device_name,
        "versions": versions() | torch_libraries(),
    }


async def _passes(plan: Plan, workload: Workload, engine: Any, events: Events) -> Passes:
    stream = _stream(engine, plan.engine_arguments["data_parallel_size"])
    for _ in range(plan.warmup_passes):
        await _pass(plan, workload, engine, stream, events, "warmup")
        await engine.collective_rpc("capture_end", args=("warmup",))
    for _ in range(_UNPROFILED_PASSES):
        unprofiled = await _pass(plan, workload, engine, stream, events, "unprofiled")
        await engine.collective_rpc("capture_end", args=("unprofiled",))
        if not stall_ns(pass_notes(plan, 0, "unprofiled")):
            break
    profiled = await _pass(plan, workload, engine, stream, events, "record")
    events.phase("write")
    await engine.collective_rpc("capture_end", args=("profiled",))
    return Passes(unprofiled, profiled)


async def _pass(
    plan: Plan, workload: Workload, engine: Any, stream: Stream, events: Events, phase: str
) -> Pass:
    profiled = phase == "record"
    await engine.reset_prefix_cache()
    events.phase(phase, 0, len(workload.requests))
    await engine.collective_rpc("capture_begin", args=(profiled, plan.skip, plan.steps))
    closed = asyncio.Event()
    watch = asyncio.create_task(_watch(plan.scratch, closed, events)) if profiled else None
    try:
        return await drive(
            workload,
            stream,
            done=lambda count, total: (
                None if closed.is_set() else events.phase(phase, count, total)
            ),
            stop=closed,
        )
    finally:
        if watch:
            watch.cancel()


async def _watch(folder: Path, closed: asyncio.Event, events: Events) -> None:
    """Waits until rank 0 has closed its window and begins to write its trace."""
    marker = rank_folder(folder, 0) / WINDOW_CLOSED
    while not marker.exists():
        await asyncio.sleep(_POLL_S)
    closed.set()
    events.phase("write")


def _stream(engine: Any, replicas: int) -> Stream:
    """The function that sends one request to the engine.

    Requests go to the data-parallel replicas round-robin, so each replica gets the same requests
    in every pass. vLLM itself would balance by the last known load, perhaps of the pass before.
    """
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    numbers = iter(range(sys.maxsize))

    async def stream(request: Request) -> AsyncIterator[Chunk]:
        is_text = isinstance(request.prompt, str)
        prompt = request.prompt if is_text else {"prompt_token_ids": list(request.prompt)}
        sampling = SamplingParams(
            max_tokens=request.output_tokens,
            temperature=0.0,
            ignore_eos=True,
            detokenize=is_text,
            output_kind=RequestOutputKind.DELTA,
        )
        # The suffix makes ids unique across passes; it is removed when steps are collected.
        name = f"{request.request_id}/{next(numbers)}"
        replica = request.number % replicas if replicas > 1 else None
        async for output in engine.generate(prompt, sampling, name, data_parallel_rank=replica):
            part = output.outputs[0]
            yield Chunk(
                len(part.token_ids), list(part.token_ids), part.text or "", part.finish_reason
            )

    return stream


def _plain(value: Any, depth: int = 0) -> Any:
    """Converts a configuration to JSON values; objects that are not dataclasses become text."""
    fields = getattr(value, "__dataclass_fields__", None)
    if fields and depth < 4:
        return {name: _plain(getattr(value, name, None), depth + 1) for name in fields}
    if isinstance(value, dict):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def main() -> int:
    plan = Plan.from_json(sys.stdin.read())
    events = Events(plan.events_descriptor)
    # The parent handles Ctrl-C and ends this process with SIGTERM.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    end_with_parent()
    try:
        events.send(result=asyncio.run(capture_engine(plan, events)))
    except SystemExit:
        return 1  # ended by SIGTERM
    except BaseException as error:
        traceback.print_exc()
        cause = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        known = isinstance(cause, CaptureError)
        with suppress(OSError):
            events.send(failure=str(cause), known=known, type=type(cause).__name__)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
