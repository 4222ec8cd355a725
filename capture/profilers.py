"""The profilers that can record a run; `traceql capture run --profiler` names one."""

import re
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from capture.errors import CaptureError, EngineFailed
from capture.run_directory import rank_folder

REPORT = "profile"  # the report of a tool, in the scratch folder; tools add their suffix


class ProfilerOptions(NamedTuple):
    """What the profiler records besides events; stacks and memory cost time and space."""

    stacks: bool = False
    shapes: bool = True
    memory: bool = False


class Profiler(ABC):
    """A profiler: its settings of vLLM, the command around the engine, and its files.

    Attributes:
        program: the command that starts the engine process; None if it is part of the engine.
        write_s: how long it may take to write its report after the engine has ended.
    """

    name: str
    program: str | None = None
    write_s = 0

    def require_possible(self, options: ProfilerOptions, *, world_size: int, has_gpu: bool) -> None:
        """Raises CaptureError if the profiler is not installed or cannot record this."""
        del options, world_size, has_gpu

    @abstractmethod
    def engine_arguments(self, options: ProfilerOptions, folder: Path) -> dict[str, Any]:
        """Those that set it up; it writes to the folder until each rank sets its own."""

    def command(
        self, options: ProfilerOptions, scratch: Path, *, repeats: bool = False
    ) -> Sequence[str]:
        """The words before the command of the engine process.

        If the engine starts and stops the profiler repeatedly, each time makes a report of its own
        where the profiler can.
        """
        del options, scratch, repeats
        return ()

    @abstractmethod
    def collect(self, folder: Path, scratch: Path, ranks: list[dict[str, Any]]) -> dict[str, Any]:
        """Moves what was recorded to `traces/`, and adds to each rank the path of its trace.

        Returns what run.json says of the profiler besides its options; raises EngineFailed.
        """


_VERSION_S = 60
_LETTERS = 200  # shown of a tool's last line
_VALUE = re.compile(r"(?<=\w)=\S+")  # perhaps of a variable of the environment, with a secret


class Tool(Profiler):
    """A program that starts the engine and records while CUDA's profiler is on."""

    program: str
    write_s = 900
    title: str
    suffix: str

    def require_possible(self, options: ProfilerOptions, *, world_size: int, has_gpu: bool) -> None:
        if options.stacks:
            raise CaptureError(
                f"--stacks records Python stacks, which {self.title} does not; omit it, or use "
                "--profiler torch"
            )
        if not has_gpu:
            raise CaptureError(
                f"--profiler {self.name} needs an NVIDIA GPU, and there is none; use --profiler "
                "torch, which records CPUs too"
            )
        if shutil.which(self.program) is None:
            raise CaptureError(
                f"{self.program} is not on PATH; install {self.title}, or use --profiler torch"
            )

    def engine_arguments(self, options: ProfilerOptions, folder: Path) -> dict[str, Any]:
        return {"profiler_config": {"profiler": "cuda"}}

    def collect(self, folder: Path, scratch: Path, ranks: list[dict[str, Any]]) -> dict[str, Any]:
        written, traces = scratch / f"{REPORT}{self.suffix}", folder / "traces"
        if not written.exists():
            raise EngineFailed(
                f"{self.program} wrote no report; {folder / 'log.txt'} has its messages"
            )
        traces.mkdir(exist_ok=True)
        report = written.replace(traces / written.name)
        trace = self._converted(report)
        for facts in ranks:
            facts["trace"] = f"traces/{trace.name}"
        return {"version": self._version(), "report": f"traces/{report.name}"}

    def _converted(self, report: Path) -> Path:
        """Makes the file that traceql loads, beside the report."""
        raise NotImplementedError

    def _run(self, words: Sequence[str], **keywords: Any) -> None:
        """Runs the program on a report; raises EngineFailed with the last line of its output."""
        done = subprocess.run(
            [self.program, *words],
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            check=False,
            **({"stdout": subprocess.DEVNULL} | keywords),
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            message = _VALUE.sub("=...", last)[:_LETTERS]
            program = shutil.which(self.program)
            raise EngineFailed(f"{program} {words[0]} failed ({message}); its report is in traces/")

    def _version(self) -> str | None:
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                [self.program, "--version"],
                capture_output=True,
                text=True,
                timeout=_VERSION_S,
                check=True,
            )
            return done.stdout.strip().splitlines()[-1]
        return None


class PyTorch(Profiler):
    name = "torch"

    def engine_arguments(self, options: ProfilerOptions, folder: Path) -> dict[str, Any]:
        config = {
            "profiler": "torch",
            "torch_profiler_dir": str(folder),
            "torch_profiler_with_stack": options.stacks,
            "torch_profiler_record_shapes": options.shapes,
            "torch_profiler_with_memory": options.memory,
            "torch_profiler_use_gzip": True,
            "torch_profiler_dump_cuda_time_total": False,
            "ignore_frontend": True,
        }
        return {"profiler_config": config}

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


PROFILERS: Mapping[str, Profiler] = {
    one.name: one for one in (PyTorch(), NsightSystems(), NsightCompute())
}
