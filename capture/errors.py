"""Every error that capture raises on purpose. A message is one line and names the next step."""


class CaptureError(Exception):
    """Base of all errors whose message is meant for the user."""


class UnsupportedVllm(CaptureError):
    """vLLM is missing, or its version is not one that capture knows."""


class ModelNotFound(CaptureError):
    """No model at this path, of this id, or built in under this name."""


class WorkloadInvalid(CaptureError):
    """Prompts cannot be read, or do not fit the model."""


class RunDirectoryExists(CaptureError):
    """The run directory has contents already."""


class EngineFailed(CaptureError):
    """The engine did not start, or stopped while it was recorded; the log has the details."""


class ServerUnusable(CaptureError):
    """A server does not answer, or was started without its profiler."""
