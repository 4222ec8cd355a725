"""Finds the files that belong to traceql: inside the package in a wheel, above it in a checkout."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def resource(name: str) -> Path:
    """The folder `queries`, `checks`, `docs` or `examples` of this installation."""
    installed = PACKAGE / name
    return installed if installed.is_dir() else PACKAGE.parent / name


SCHEMA_VERSION = 17  # of the tables that traceql/sql defines
QUERIES = resource("queries")
CHECKS = resource("checks")
EXAMPLES = resource("examples")
DEFINITIONS = resource("docs") / "definitions.md"
MODELS = PACKAGE.parent / "capture" / "models"  # data alone: the packages do not import each other
EXAMPLE_TRACE = EXAMPLES / "qwen3-32b-tp4-graph-nccl"
