"""Opening a trace in the Perfetto UI, from a server on this machine."""
