"""What the profilers of NVIDIA have in common: programs that start the engine process."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from capture.errors import CaptureError, EngineFailed
from capture.profilers.contract import REPORT, Profiler, ProfilerOptions

_VERSION_S = 60
_LETTERS = 200  # of a tool's last line that are shown
_VALUE = re.compile(r"(?<=\w)=\S+")  # perhaps of a variable of the environment, with a secret


class Tool(Profiler):
    """A program that starts the engine and records what lies between start and stop of CUDA's
    profiler.

    Attributes:
        title: what its maker calls it.
        suffix: of its reports.
    """

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
        report = self._report(folder, scratch)
        trace = self._converted(report)
        for facts in ranks:
            facts["trace"] = f"traces/{trace.name}"
        return {"version": self._version(), "report": f"traces/{report.name}"}

    def _report(self, folder: Path, scratch: Path) -> Path:
        """The report, which is moved to the traces."""
        written = scratch / f"{REPORT}{self.suffix}"
        if not written.exists():
            raise EngineFailed(
                f"{self.program} wrote no report; {folder / 'log.txt'} has its messages"
            )
        (folder / "traces").mkdir(exist_ok=True)
        return written.replace(folder / "traces" / written.name)

    def _converted(self, report: Path) -> Path:
        """Makes the file that traceql loads, beside the report."""
        raise NotImplementedError

    def _run(self, words: Sequence[str], **keywords: Any) -> None:
        """Runs the program on a report.

        Raises:
            EngineFailed: with the last line that it said.
        """
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
            said = _VALUE.sub("=...", last)[:_LETTERS]
            raise EngineFailed(
                f"{shutil.which(self.program)} {words[0]} failed ({said}); its report is in traces/"
            )

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
