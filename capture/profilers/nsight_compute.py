"""Nsight Compute: counts of each kernel, such as bytes and FLOPs, without a timeline."""

from collections.abc import Sequence
from pathlib import Path

from capture.errors import CaptureError
from capture.profilers.contract import REPORT, ProfilerOptions
from capture.profilers.tool import Tool

# Names differ by chip, so they are patterns; what a chip does not have is left out.
_METRICS = (
    r"regex:^gpu__time_duration\.sum$",
    r"regex:^dram__bytes_(op_)?(read|write)\.sum$",
    r"regex:^lts__t_bytes\.sum$",
    r"regex:^sm__ops_path_tensor_src_(bf16|fp16|fp8|int8|tf32)[a-z0-9_]*\.sum$",
    r"regex:^smsp__sass_thread_inst_executed_op_[fh](add|mul|fma)_pred_on\.sum$",
    r"regex:^smsp__inst_executed\.sum$",
    r"regex:^sm__throughput\.avg\.pct_of_peak_sustained_elapsed$",
    r"regex:^gpu__(compute_memory|dram)_throughput\.avg\.pct_of_peak_sustained_elapsed$",
    r"regex:^sm__pipe_tensor_cycles_active\.avg\.pct_of_peak_sustained_elapsed$",
    r"regex:^sm__warps_active\.avg\.pct_of_peak_sustained_active$",
    r"regex:^(sm|dram)__cycles_elapsed\.avg\.per_second$",
)


class NsightCompute(Tool):
    name = program = "ncu"
    title = "Nsight Compute"
    suffix = ".ncu-rep"

    def require_possible(self, options: ProfilerOptions, *, world_size: int, has_gpu: bool) -> None:
        super().require_possible(options, world_size=world_size, has_gpu=has_gpu)
        if options.memory:
            raise CaptureError(
                f"--memory records allocations, which {self.title} does not; omit it"
            )
        if world_size > 1:
            raise CaptureError(
                f"{self.title} runs each kernel several times and alone, so kernels that wait for "
                "other ranks would hang; use --tp 1 --pp 1 --dp 1, or --profiler nsys"
            )

    def command(
        self, options: ProfilerOptions, scratch: Path, *, repeats: bool = False
    ) -> Sequence[str]:
        """Clocks stay as they are: changing them would need rights and disturb other users."""
        return (
            self.program,
            "--profile-from-start=off",
            "--nvtx",
            "--target-processes=all",
            "--clock-control=none",
            f"--metrics={','.join(_METRICS)}",
            f"--export={scratch / REPORT}",
        )

    def _converted(self, report: Path) -> Path:
        made = report.with_suffix(".csv")
        with made.open("w") as file:
            self._run(
                [f"--import={report}", "--csv", "--page=raw", "--print-units=base"], stdout=file
            )
        return made
