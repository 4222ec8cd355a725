"""A scheduler of vLLM that notes its queue and its KV cache in every step.

`recording_scheduler` is vLLM's own scheduler; `--scheduler-cls` names it. What it notes travels to
the workers with the step, as an attribute of the SchedulerOutput, and their extension keeps it.
"""

import copy
import time
from contextlib import suppress
from typing import Any

QUALIFIED_NAME = "capture.scheduler.recording_scheduler"
_ATTRIBUTE = "capture_note"


def recording_scheduler(vllm_config: Any, **arguments: Any) -> Any:
    """The scheduler that vLLM would use by itself, which also notes its steps."""
    if getattr(vllm_config, "diffusion_config", None) is not None:
        raise ValueError(f"{QUALIFIED_NAME} does not schedule diffusion; omit --scheduler-cls")
    plain = copy.copy(vllm_config.scheduler_config)
    plain.scheduler_cls = None
    scheduler = plain.get_scheduler_cls()(vllm_config=vllm_config, **arguments)
    recorder = _Recorder(scheduler)
    scheduler.schedule = recorder.schedule
    scheduler.update_from_output = recorder.update_from_output
    return scheduler


def note_of(output: Any) -> dict[str, Any] | None:
    """The scheduler's note in a SchedulerOutput; None if another scheduler made it."""
    return getattr(output, _ATTRIBUTE, None)


class _Recorder:
    """Calls the methods of a scheduler; an error in a note never ends the engine."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._schedule = scheduler.schedule
        self._update = scheduler.update_from_output
        self._step = -1
        self._accepted: list[tuple[int, int]] = []

    def schedule(self, *arguments: Any, **keywords: Any) -> Any:
        output = self._schedule(*arguments, **keywords)
        self._step += 1
        with suppress(Exception):
            note = _note(self._scheduler, output)
            note |= {"step": self._step, "accepted": self._accepted}
            setattr(output, _ATTRIBUTE, note)
            self._accepted = []
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        with suppress(Exception):
            if note := note_of(scheduler_output):
                count = _accepted_tokens(scheduler_output, model_runner_output)
                self._accepted += [(note["step"], count)] if note["drafted"] is not None else []
        return self._update(scheduler_output, model_runner_output)


def _note(scheduler: Any, output: Any) -> dict[str, Any]:
    """What the scheduler decided: the keys of a line of scheduler.jsonl."""
    running, waiting = scheduler.get_request_counts()
    pool = scheduler.kv_cache_manager.block_pool
    blocks = pool.num_gpu_blocks - 1  # without the null block
    begun = [
        (one, request)
        for one in output.scheduled_new_reqs
        if not (request := scheduler.requests[one.req_id]).num_preemptions
    ]
    drafts = output.scheduled_spec_decode_tokens.values()
    speculates, caches = scheduler.num_spec_tokens > 0, scheduler.kv_cache_manager.enable_caching
    return {
        "unix_ns": time.time_ns(),
        "running": running,
        "waiting": waiting,
        "kv_blocks_used": blocks - pool.get_num_free_blocks(),
        "kv_blocks": blocks,
        "preempted": len(output.preempted_req_ids or ()),
        "prefix_queried": sum(r.num_prompt_tokens for _, r in begun) if caches else None,
        "prefix_hits": sum(one.num_computed_tokens for one, _ in begun) if caches else None,
        "scheduled_tokens": output.total_num_scheduled_tokens,
        "max_scheduled_tokens": scheduler.max_num_scheduled_tokens,
        "max_running": getattr(scheduler, "max_num_active_reqs", scheduler.max_num_running_reqs),
        "drafted": sum(map(len, drafts)) if speculates else None,
    }


def _accepted_tokens(scheduler_output: Any, model_runner_output: Any) -> int:
    """The drafted tokens that the model confirmed; each request also gets one token of its own."""
    sampled, index = model_runner_output.sampled_token_ids, model_runner_output.req_id_to_index
    drafted = scheduler_output.scheduled_spec_decode_tokens
    return sum(max(len(sampled[index[name]]) - 1, 0) for name in drafted if name in index)
