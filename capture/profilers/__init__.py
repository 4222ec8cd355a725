"""The profilers that can record a run; `traceql capture run --profiler` names one."""

from collections.abc import Mapping

from capture.profilers.contract import Profiler
from capture.profilers.nsight_compute import NsightCompute
from capture.profilers.nsight_systems import NsightSystems
from capture.profilers.pytorch import PyTorch

PROFILERS: Mapping[str, Profiler] = {
    one.name: one for one in (PyTorch(), NsightSystems(), NsightCompute())
}
