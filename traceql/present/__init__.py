"""Reports, pages, assistants, notebooks and the native Perfetto trace."""
