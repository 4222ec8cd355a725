"""`python -m capture`: the capture commands on a machine without traceql's dependencies."""

import sys

from capture.cli import command

sys.exit(command(prog_name="capture"))
