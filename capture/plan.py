"""The instructions for the engine process."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from capture.workload import Workload, file_workload, random_workload


@dataclass(frozen=True)
class Plan:
    """Everything that the engine process must know about a run; it is sent as JSON.

    Attributes:
        folder: the run directory.
        scratch: folder for the files of the ranks until the run directory is complete.
        random: arguments of `random_workload`; with a prompts_file only its output_tokens and
            concurrency are used.
        skip: engine iterations to skip before recording.
        steps: engine iterations to record; None records the whole workload.
        warmup_passes: how often the workload runs before anything is measured.
        events_descriptor: the file descriptor for progress and the result.
    """

    folder: Path
    scratch: Path
    engine_arguments: dict[str, Any]
    random: dict[str, Any]
    prompts_file: Path | None = None
    annotate_layers: bool = False
    skip: int = 0
    steps: int | None = None
    warmup_passes: int = 2
    events_descriptor: int = -1

    def workload(self, vocab_size: int) -> Workload:
        if self.prompts_file is None:
            return random_workload(vocab_size=vocab_size, **self.random)
        return file_workload(
            self.prompts_file,
            output_tokens=self.random["output_tokens"],
            concurrency=self.random["concurrency"],
        )

    def to_json(self) -> str:
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        fields = json.loads(text)
        for name in ("folder", "scratch", "prompts_file"):
            fields[name] = fields[name] and Path(fields[name])
        return cls(**fields)
