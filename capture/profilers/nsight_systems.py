"""Nsight Systems: one report of all ranks, converted to SQLite."""

from collections.abc import Sequence
from pathlib import Path

from capture.profilers.contract import REPORT, ProfilerOptions
from capture.profilers.tool import Tool


class NsightSystems(Tool):
    name = program = "nsys"
    title = "Nsight Systems"
    suffix = ".nsys-rep"

    def command(
        self, options: ProfilerOptions, scratch: Path, *, repeats: bool = False
    ) -> Sequence[str]:
        """Kernels inside CUDA graphs, all processes, and whether threads were on a CPU."""
        return (
            self.program,
            "profile",
            "--trace=cuda,nvtx,osrt",
            "--cuda-graph-trace=node",
            "--trace-fork-before-exec=true",
            "--cpuctxsw=process-tree",
            "--sample=none",
            "--capture-range=cudaProfilerApi",
            f"--capture-range-end={'repeat' if repeats else 'stop'}",
            f"--cuda-memory-usage={'true' if options.memory else 'false'}",
            f"--output={scratch / REPORT}",
        )

    def _converted(self, report: Path) -> Path:
        made = report.with_suffix(".sqlite")
        # Blobs hold the sizes of NCCL's messages.
        self._run(
            ["export", "--type=sqlite", "--include-blobs=true", f"--output={made}", str(report)]
        )
        return made
