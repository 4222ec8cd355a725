"""`python -m capture`: capture alone, on a machine without traceql's own dependencies."""

import sys

from capture.cli import command

sys.exit(command(prog_name="capture"))
