"""All errors that capture raises for its user. Each message is one line and says what to do."""


class CaptureError(Exception):
    """Base class of all errors whose message is meant for the user."""


class UnsupportedVllm(CaptureError):
    """vLLM is not installed, or capture does not support its version."""


class ModelNotFound(CaptureError):
    """No model has this path or id, and no built-in architecture has this name."""


class WorkloadInvalid(CaptureError):
    """The prompts cannot be read or do not fit the model."""


class PlanInvalid(CaptureError):
    """A plan of an experiment cannot be read, or requires what is impossible."""


class ResultsUnusable(CaptureError):
    """The folder for the results of an experiment cannot be used."""


class PointFailed(CaptureError):
    """A point of an experiment has no result; the experiment goes on."""


class EngineFailed(CaptureError):
    """The engine did not start, or it failed during the capture; the log has the details."""


class ServerUnusable(CaptureError):
    """The server does not answer, or it was started without a profiler."""


class GpuBusy(CaptureError):
    """Another program uses a GPU that is to be measured."""
