"""What a run needs to know of the profiler that records it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPORT = "profile"  # the report of a tool, in the scratch folder; tools add their suffix


@dataclass(frozen=True)
class ProfilerOptions:
    """What the profiler records besides events; stacks and memory cost time and space."""

    stacks: bool = False
    shapes: bool = True
    memory: bool = False


class Profiler(ABC):
    """A profiler: its settings of vLLM, the command around the engine, and its files.

    Attributes:
        name: what the user and run.json call it.
        program: the command that starts the engine process; None if it is part of the engine.
        write_s: how long it may take to write its report after the engine has ended.
    """

    name: str
    program: str | None = None
    write_s = 0

    @abstractmethod
    def require_possible(self, options: ProfilerOptions, *, world_size: int, has_gpu: bool) -> None:
        """Raises CaptureError if the profiler is not installed or cannot record this."""

    @abstractmethod
    def engine_arguments(self, options: ProfilerOptions, folder: Path) -> dict[str, Any]:
        """The arguments of vLLM's engine that set the profiler up.

        Args:
            folder: where it writes until each rank sets its own folder.
        """

    def command(
        self, options: ProfilerOptions, scratch: Path, *, repeats: bool = False
    ) -> Sequence[str]:
        """The words before the command of the engine process.

        Args:
            repeats: whether the engine starts and stops the profiler more than once; each time
                makes a report of its own where the profiler can.
        """
        del options, scratch, repeats
        return ()

    @abstractmethod
    def collect(self, folder: Path, scratch: Path, ranks: list[dict[str, Any]]) -> dict[str, Any]:
        """Moves what was recorded to `traces/`, and adds to each rank the path of its trace.

        Returns what run.json says of the profiler besides its options.

        Raises:
            EngineFailed: something is missing; the message says what to do.
        """
