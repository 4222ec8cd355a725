"""The words of rocprofv3, AMD's profiler, in all of its outputs."""
