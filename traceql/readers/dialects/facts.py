"""What a trace file says about itself and its job, in the words of no profiler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class ProcessGroup:
    """A process group.

    Attributes:
        description: the description that the program gave the group; empty if it gave none.
    """

    name: str
    ranks: list[int]
    description: str


@dataclass(frozen=True)
class FileFacts:
    """The facts that a dialect finds in the metadata of a file; what is unknown is None or empty.

    Attributes:
        rank: the rank of the file in its own job.
        process: the id of its process, where one file has several ranks.
        recorded: what was recorded, such as `process 7 on GPU 0`, where a profiler writes the same
            recording in several forms; empty if the file does not tell.
        form: which of these forms the file is.
        world_size: the number of ranks in that job.
        least_world_size: the number of ranks that it must have had, where none is stated.
        label: what a program that merged the files of several ranks into this one calls the rank of
            this recording, such as `TP00-PP01`; empty if it has no label, None if the file is not
            merged.
        job_source: where the file has these facts of its job.
        groups: the process groups that the file lists in full, with ranks of that job.
        base_time_ns: the Unix time that the file's times count from, ns.
        device_names: the name of each device, by its number on its host.
        has_shared_group_names: whether a group has the same name in the events of all its ranks,
            and no other group has it.
        profiler: what recorded the file, with its version and those of its options that are known,
            such as `Nsight Systems 2025.3.2 (CUDA graphs: node)`.
    """

    rank: int | None = None
    process: int | None = None
    recorded: str = ""
    form: str = ""
    world_size: int | None = None
    least_world_size: int = 0
    label: str | None = None
    job_source: str = "metadata of the file"
    groups: Sequence[ProcessGroup] = ()
    base_time_ns: int | None = None
    device_names: Mapping[int, str] = field(default_factory=dict)
    has_shared_group_names: bool = False
    profiler: str = ""

    def shift(self, rank: int) -> int:
        """The rank in the run minus the rank in the file.

        They differ because each data-parallel engine counts its ranks from 0.
        """
        return 0 if self.rank is None else rank - self.rank

    def groups_in_run(self, rank: int) -> list[ProcessGroup]:
        """The process groups of the file of this rank, with ranks as the run numbers them."""
        shift = self.shift(rank)
        return [replace(g, ranks=[r + shift for r in g.ranks]) for g in self.groups]


def is_ranks(value: object) -> bool:
    """Whether this is a list of ranks that is not empty."""
    return isinstance(value, list) and bool(value) and all(isinstance(r, int) for r in value)


def profiler(name: str, *options: str) -> str:
    """What recorded a file, for FileFacts.profiler; options that are empty are unknown."""
    known = ", ".join(filter(None, options))
    return f"{name} ({known})" if known else name


def process_on_gpu(process: int | None, device: int | None) -> str:
    """What was recorded, for FileFacts.recorded."""
    return "" if process is None or device is None else f"process {process} on GPU {device}"
