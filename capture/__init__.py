"""Records vLLM or any other PyTorch program with torch.profiler into a run directory."""

from typing import TYPE_CHECKING, Any

from capture.errors import CaptureError

if TYPE_CHECKING:
    from capture.run_directory import profile

__all__ = ["CaptureError", "profile"]


def __getattr__(name: str) -> Any:
    """Imports `profile` on first use, because it belongs to programs that have PyTorch."""
    if name == "profile":
        from capture.run_directory import profile

        return profile
    raise AttributeError(f"module 'capture' has no attribute '{name}'")
