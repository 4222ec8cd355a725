"""Where the files that belong to the package are: beside it in a wheel, above it in a checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource(name: str) -> Path:
    """The folder `queries`, `checks` or `examples`, wherever this installation has it."""
    installed = _PACKAGE / name
    return installed if installed.is_dir() else _PACKAGE.parent / name


SCHEMA_VERSION = 5  # of the database that the scripts in queries/tables make
QUERIES = resource("queries")
CHECKS = resource("checks")
EXAMPLES = resource("examples")
EXAMPLE_TRACE = EXAMPLES / "qwen3-32b-tp4-graph-nccl"
