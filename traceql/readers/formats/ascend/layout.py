"""Where the traces lie in the folders that torch_npu and msprof write.

A rank has a folder `..._ascend_pt` with `ASCEND_PROFILER_OUTPUT`, or `PROF_...` with
`mindstudio_profiler_output`. The trace is one of many files there, in text or in db form.
"""

from collections.abc import Sequence
from pathlib import Path

from traceql.errors import TraceNotFound

OUTPUTS = ("ASCEND_PROFILER_OUTPUT", "mindstudio_profiler_output")
# In the order of preference: of two forms of the same rank, the first one is read.
_TRACES = (
    "trace_view.json",
    "trace_view.json.gz",
    "ascend_pytorch_profiler*.db",
    "msprof_[0-9]*.json",
    "msprof_[0-9]*.json.gz",
    "msprof_[0-9]*.db",
)
_RECORDED = ("PROF_*", "FRAMEWORK")  # what the profiler leaves before it is analysed
_FOLDER = "*_ascend_pt"
_SLICES = "msprof_slice_*.json*"
WHOLE_AGAIN = 'set "slice_switch" to "off" in msprof_slice.json, and export it again'


def traces_of_folder(folder: Path) -> Sequence[Path]:
    """The trace of a rank's folder, or of all ranks in a folder of them; none if it is neither.

    Raises:
        TraceNotFound: a folder is of a rank, but has no trace.
    """
    if folder.name in OUTPUTS or _is_rank(folder):
        return [_trace_of_rank(folder)]
    places = [place for place in (folder, folder / "traces") if place.is_dir()]
    ranks = [path for place in places for path in sorted(place.iterdir())]
    return [_trace_of_rank(path) for path in ranks if path.is_dir() and _is_rank(path)]


def is_superseded(path: Path) -> bool:
    """Whether a file of a folder is one of those beside the trace that traces_of_folder chose."""
    is_beside = path.name.startswith(("profiler_info", "profiler_metadata"))
    return path.parent.name in OUTPUTS or is_beside


def is_slice(path: Path) -> bool:
    """Whether a file is a part of a timeline that msprof cut."""
    return path.match(_SLICES)


def others_beside(path: Path) -> list[Path]:
    """The traces beside the one that is read: of another form, or of another export."""
    if path.parent.name not in OUTPUTS:
        return []
    return sorted({p for pattern in _TRACES for p in path.parent.glob(pattern)} - {path})


def _is_rank(folder: Path) -> bool:
    return folder.match(_FOLDER) or any((folder / output).is_dir() for output in OUTPUTS)


def _trace_of_rank(folder: Path) -> Path:
    # The best output first: torch_npu leaves that of msprof deeper.
    deeper = sorted(path / OUTPUTS[1] for path in folder.glob("PROF_*"))
    places = (*(folder / name for name in OUTPUTS), *deeper)
    outputs = [folder] if folder.name in OUTPUTS else [path for path in places if path.is_dir()]
    traces = (path for at in outputs for pattern in _TRACES for path in sorted(at.glob(pattern)))
    if trace := next(filter(Path.is_file, traces), None):
        return trace
    slices, tables = (sum(len([*at.glob(p)]) for at in outputs) for p in (_SLICES, "*.csv"))
    if slices:
        reason = (
            "msprof cut the timeline into slices (msprof_slice_*.json, "
            f"{slices} of them here), each a part of the rank; {WHOLE_AGAIN}"
        )
    elif tables:
        reason = (
            f"its {tables} CSV tables are sums and lists beside an Ascend profile, without its "
            "timeline; load the trace_view.json or ascend_pytorch_profiler*.db of the rank, or "
            "analyse it again with the export types Text or Db"
        )
    elif any(True for pattern in _RECORDED for _ in folder.glob(pattern)):
        reason = (
            "recorded, but not analysed; call torch_npu.profiler.profiler.analyse on it, and load "
            "it again"
        )
    else:
        reason = (
            "an Ascend profile without trace_view.json or ascend_pytorch_profiler*.db; analyse it "
            "again with the export types Text or Db"
        )
    raise TraceNotFound(f"{folder}: {reason}")
