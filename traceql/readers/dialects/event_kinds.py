"""The kinds of events, which the categories of every dialect stand for."""

from enum import StrEnum


class EventKind(StrEnum):
    """What an event is, whichever category the profiler gave it."""

    KERNEL = "kernel"
    MEMCPY = "memcpy"
    MEMSET = "memset"
    LAUNCH = "launch"  # a call of the CUDA, HIP or XPU runtime or driver
    OPERATOR = "operator"
    ANNOTATION = "annotation"  # record_function and the like, on the host
    GPU_ANNOTATION = "gpu_annotation"  # the same annotation, over the kernels launched inside it
    OFF_CPU = "off_cpu"  # a thread was on no CPU
    FRAME = "frame"  # a call of a Python function or an nn.Module
