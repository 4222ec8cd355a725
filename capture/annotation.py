"""Names each module of a model in the recording by wrapping its forward in a range.

This works in eager mode only: compiled code and CUDA graphs do not call the modules from Python.
"""

from collections import Counter
from typing import Any

PREFIX = "module: "
_ANNOTATED = "_capture_annotated"  # set on each module whose forward is wrapped
# Placeholders for layers of other pipeline ranks, and containers, whose forward is never called.
_NEVER_CALLED = frozenset({"PPMissingLayer", "ModuleList"})


def annotate(model: Any, *, nvtx: bool = False) -> list[str]:
    """Wraps the forward of every module of a torch.nn.Module and returns the annotated names.

    The names are the model's own, so a layer has the same number on every pipeline rank. A module
    that several others share (the rotary embedding) is skipped because it has no unique name.

    Args:
        nvtx: whether the ranges are NVTX ranges, which NVIDIA's tools record, instead of those that
            PyTorch's profiler records.
    """
    named = list(model.named_modules(remove_duplicate=False))
    places = Counter(id(module) for _, module in named)
    names = []
    for name, module in named:
        if not name or places[id(module)] > 1 or type(module).__name__ in _NEVER_CALLED:
            continue
        if _ANNOTATED not in module.__dict__:
            _wrap(module, PREFIX + name, nvtx=nvtx)
        names.append(name)
    return names


def _wrap(module: Any, label: str, *, nvtx: bool) -> None:
    import torch

    original = module.forward
    named = torch.cuda.nvtx.range if nvtx else torch.profiler.record_function

    def forward(*args: Any, **keywords: Any) -> Any:
        with named(label):
            return original(*args, **keywords)

    module.__dict__[_ANNOTATED] = True
    module.__dict__["forward"] = forward
