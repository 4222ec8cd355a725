"""Names each module of a model in the trace by wrapping its forward in record_function.

This works in eager mode only: compiled code and CUDA graphs do not call the modules from Python.
"""

from collections import Counter
from typing import Any

PREFIX = "module: "
_ANNOTATED = "_capture_annotated"  # set on each module whose forward is wrapped
# Placeholders for layers of other pipeline ranks, and containers, whose forward is never called.
_NEVER_CALLED = frozenset({"PPMissingLayer", "ModuleList"})


def annotate(model: Any) -> list[str]:
    """Wraps the forward of every module of a torch.nn.Module and returns the annotated names.

    The names are the model's own, so a layer has the same number on every pipeline rank. A module
    that several others share (the rotary embedding) is skipped because it has no unique name.
    """
    named = list(model.named_modules(remove_duplicate=False))
    places = Counter(id(module) for _, module in named)
    names = []
    for name, module in named:
        if not name or places[id(module)] > 1 or type(module).__name__ in _NEVER_CALLED:
            continue
        if _ANNOTATED not in module.__dict__:
            _wrap(module, PREFIX + name)
        names.append(name)
    return names


def _wrap(module: Any, label: str) -> None:
    import torch

    original = module.forward

    def forward(*args: Any, **keywords: Any) -> Any:
        with torch.profiler.record_function(label):
            return original(*args, **keywords)

    module.__dict__[_ANNOTATED] = True
    module.__dict__["forward"] = forward
