"""`python -m traceql`."""

from traceql.cli import main

main()
