"""What traceql's texts, which are written for GPUs, say of Ascend's devices."""

WORDS = {
    "CUDA runtime or driver call": "Call of CANN",
    "CUDA graph": "ACL graph",
    "GPU": "NPU",
}
