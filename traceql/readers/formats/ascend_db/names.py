"""How databases of Ascend differ from others: by the names of their files and tables."""

import re
from collections.abc import Collection

# The number is a rank after `ascend_pytorch_profiler`, and a time after `msprof`.
PROFILES = re.compile(r"^(ascend_pytorch_profiler|msprof)(_(?P<number>\d+))?\.db(\.gz)?$")
ANALYSIS = "analysis.db"
# Tables with events. A profile has the texts and at least one of these.
EVENTS = frozenset(
    {"PYTORCH_API", "CANN_API", "TASK", "COMPUTE_TASK_INFO", "MSTX_EVENTS"}
    | {"COMMUNICATION_OP", "COMMUNICATION_TASK_INFO"}
)
# Tables of what `torch_npu.profiler` and `msprof-analyze` make from profiles.
_SUMMARY = re.compile(
    r"((Cluster)?CommAnalyzer|ClusterCommunication)(Time|Bandwidth|Matrix)|(Cluster)?StepTraceTime"
)


def is_profile(tables: Collection[str]) -> bool:
    return "STRING_IDS" in tables and not EVENTS.isdisjoint(tables)


def is_summary(tables: Collection[str]) -> bool:
    """Whether these are the tables of what was made from profiles."""
    return any(map(_SUMMARY.fullmatch, tables))
