"""PyTorch's profiler, which is part of the engine: a trace for each rank."""

from pathlib import Path
from typing import Any

from capture.errors import EngineFailed
from capture.profilers.contract import Profiler, ProfilerOptions
from capture.ranks import rank_folder


class PyTorch(Profiler):
    name = "torch"

    def require_possible(self, options: ProfilerOptions, *, world_size: int, has_gpu: bool) -> None:
        """It is part of PyTorch, and records whatever PyTorch runs."""

    def engine_arguments(self, options: ProfilerOptions, folder: Path) -> dict[str, Any]:
        return {"profiler_config": profiler_config(options, folder)}

    def collect(self, folder: Path, scratch: Path, ranks: list[dict[str, Any]]) -> dict[str, Any]:
        target = folder / "traces"
        target.mkdir(exist_ok=True)
        for facts in ranks:
            written = sorted(rank_folder(scratch, facts["rank"]).glob("*.json.gz"))
            if len(written) != 1:
                raise EngineFailed(
                    f"rank {facts['rank']} wrote {len(written)} traces instead of one; "
                    f"{folder / 'log.txt'} has the profiler's messages"
                )
            name = f"rank{facts['rank']}.pt.trace.json.gz"
            written[0].replace(target / name)
            facts["trace"] = f"traces/{name}"
        return {}


def profiler_config(options: ProfilerOptions, folder: Path) -> dict[str, Any]:
    """Returns vLLM's configuration of the profiler, which writes into a folder."""
    return {
        "profiler": "torch",
        "torch_profiler_dir": str(folder),
        "torch_profiler_with_stack": options.stacks,
        "torch_profiler_record_shapes": options.shapes,
        "torch_profiler_with_memory": options.memory,
        "torch_profiler_use_gzip": True,
        "torch_profiler_dump_cuda_time_total": False,
        "ignore_frontend": True,
    }
