"""What a file says, found out without any code of traceql."""
