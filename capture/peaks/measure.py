"""Checks that the GPUs can be measured, measures them, and writes peaks.json."""

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import util
from pathlib import Path
from typing import Any

from capture.environment import environment, torch_libraries
from capture.errors import CaptureError
from capture.gpus import management_library
from capture.models import configuration, model_products
from capture.peaks.timing import Gpu, require_idle, show_only, visible_gpus
from capture.run_directory import write_json
from capture.supervise import OnPhase, ignore_phase

SCHEMA_VERSION = 2
WARM_UP_S = 30.0


def measure(
    output: Path,
    *,
    model: str | None = None,
    tp: int = 1,
    devices: Sequence[int] = (),
    warm_up_s: float = WARM_UP_S,
    on_phase: OnPhase = ignore_phase,
    warn: Callable[[str], None] = lambda _message: None,
) -> dict[str, Any]:
    """Measures the GPUs, then replaces the file; returns its contents.

    Args:
        model: a config.json, a model folder or a built-in architecture; its matrix products are
            measured too.
        tp: the tensor-parallel size that the model's products are divided by.
        devices: numbers of GPUs as nvidia-smi shows them; all that CUDA sees by default. Memory and
            products are measured on the first, communication between all.
        warm_up_s: how long the first GPU works before anything is measured.

    Raises:
        CaptureError: no PyTorch, no GPU, a GPU in use, no such model, or a file that cannot be
            written; the message says what to do.
    """
    of_model = model_products(configuration(model), tp) if model else []
    if output.is_dir():
        raise CaptureError(f"{output} is a folder; name a file with -o")
    if not output.absolute().parent.is_dir():
        raise CaptureError(f"there is no folder {output.parent}; create it, or change -o")
    if util.find_spec("torch") is None:
        raise CaptureError(
            "PyTorch is not installed here; run this where it is, such as in vLLM's environment"
        )
    show_only(devices)
    begin = time.monotonic()
    skipped: list[str] = []
    with management_library() as nvml:
        visible = visible_gpus(nvml) if nvml else []
        require_idle(visible)
        gpus = _seen_by_torch(visible, warn)
        from capture.peaks.measurements import facts, measurements

        document = {
            "schema_version": SCHEMA_VERSION,
            "measured": datetime.now(UTC).isoformat(timespec="seconds"),
            **facts(gpus[0]),
            "model": {"name": model, "tp": tp} if model else None,
            **environment(),
            **measurements(gpus, of_model, warm_up_s=warm_up_s, on_phase=on_phase, skipped=skipped),
        }
    document["versions"] |= torch_libraries()
    document["skipped"] = skipped
    document["seconds"] = round(time.monotonic() - begin, 1)
    try:
        write_json(output, document)
    except OSError as error:
        raise CaptureError(f"cannot write {output}: {error.strerror}; change -o") from None
    for reason in skipped:
        warn(reason)
    return document


def _seen_by_torch(gpus: Sequence[Gpu], warn: Callable[[str], None]) -> Sequence[Gpu]:
    """The GPUs that PyTorch sees, also without NVML."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise CaptureError("PyTorch sees no GPU here; run this on the machine that you record")
    if gpus:
        return gpus[:count]
    warn(
        "without nvidia-ml-py, clock rates and other programs on the GPUs are not detected; run "
        "pip install nvidia-ml-py"
    )
    return [Gpu(number) for number in range(count)]
