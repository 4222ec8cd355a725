"""A picture is drawn by the first test of a run that orders it; tests of pages order the same."""

import hashlib
import pickle
from pathlib import Path

import pytest
from shared_files import shared_file

from traceql.chart import drawing
from traceql.chart.drawing import Drawing, Order, Specified
from traceql.files import write_whole

_WORKER, _draw, _start = drawing.WORKER, Drawing.draw, Drawing.start


def draw_each_picture_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Drawing, "draw", _drawn)
    monkeypatch.setattr(Drawing, "start", _start_another)


def _drawn(process: Drawing, order: Order | Specified) -> bytes:
    if _is_another():
        return _draw(process, order)

    def make(path: Path) -> None:
        write_whole(path, _draw(process, order))

    fonts = (process._environment or {}).get("FONTCONFIG_FILE")
    name = hashlib.sha256(pickle.dumps((order, fonts))).hexdigest()
    return shared_file(name, make).read_bytes()


def _start_another(process: Drawing) -> None:
    """A process that may have nothing to draw is not started before its first order."""
    if _is_another():
        _start(process)


def _is_another() -> bool:
    """Whether a test replaces the process that draws, such as by one that crashes."""
    return drawing.WORKER != _WORKER
