"""A cache folder that holds nothing but the compiled engine, because compiling takes long."""

from pathlib import Path

from traceql.util.resources import cache_folder


def with_engine(folder: Path) -> str:
    """The value for XDG_CACHE_HOME."""
    (folder / "traceql").mkdir()
    cache = cache_folder()
    for engine in cache.glob("*.cwasm") if cache else ():
        (folder / "traceql" / engine.name).symlink_to(engine)
    return str(folder)
