"""The Python packages of `traceql[capture]`, which traceql itself does not need.

Modules import them in the functions that use them, so that command help works without them.
"""

from importlib import util

from capture.errors import PackageMissing


def require_packages(*names: str) -> None:
    """Checks, before anything is started, that packages can be imported.

    Raises:
        PackageMissing: at least one cannot; the message names all that are missing.
    """
    missing = [name for name in names if util.find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise PackageMissing(
            f"{', '.join(missing)} {verb} not installed; run pip install 'traceql[capture]'"
        )
