"""How databases of Ascend are told from others: by the names of their files and tables."""

import re
from collections.abc import Collection

# The number is a rank after `ascend_pytorch_profiler`, and a time after `msprof`.
PROFILES = re.compile(r"^(ascend_pytorch_profiler|msprof)(_(?P<number>\d+))?\.db(\.gz)?$")
ANALYSIS = "analysis.db"
STRINGS = "STRING_IDS"
# Tables with events. A profile has the texts and at least one of these.
EVENTS = frozenset(
    {
        "PYTORCH_API",
        "CANN_API",
        "TASK",
        "COMPUTE_TASK_INFO",
        "COMMUNICATION_OP",
        "COMMUNICATION_TASK_INFO",
        "MSTX_EVENTS",
    }
)
# Tables of what `torch_npu.profiler` and `msprof-analyze` make from profiles.
_SUMMARIES = frozenset(
    {
        "CommAnalyzerTime",
        "CommAnalyzerBandwidth",
        "CommAnalyzerMatrix",
        "StepTraceTime",
        "ClusterStepTraceTime",
        "ClusterCommAnalyzerTime",
        "ClusterCommAnalyzerBandwidth",
        "ClusterCommAnalyzerMatrix",
        "ClusterCommunicationTime",
        "ClusterCommunicationBandwidth",
        "ClusterCommunicationMatrix",
    }
)


def is_of_ascend(tables: Collection[str]) -> bool:
    """Whether these are the tables of a profile, or of what was made from profiles."""
    return is_profile(tables) or is_summary(tables)


def is_profile(tables: Collection[str]) -> bool:
    return STRINGS in tables and not EVENTS.isdisjoint(tables)


def is_summary(tables: Collection[str]) -> bool:
    return not _SUMMARIES.isdisjoint(tables)
