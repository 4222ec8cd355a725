"""Opens a trace in the Perfetto UI, served from this machine."""
