"""traceql ui as a user meets it, and the pictures of it in the README and in docs/perfetto.md.

python tests/perfetto_page.py docs/pictures
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from browser import Browser
from filelock import FileLock
from traces import hears_ctrl_c

import traceql
from traceql.util.resources import EXAMPLE_TRACE, EXAMPLES

WIDTH, HEIGHT = 1440, 860
# A layer of a decode step for which the first rank waited longest.
_SHOWN = """
    SELECT kernel.step_id, kernel.layer
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    INNER JOIN step USING (step_id)
    WHERE step.phase = 'decode' AND kernel.rank = 0 AND kernel.layer BETWEEN 3 AND 60
    GROUP BY ALL
    ORDER BY SUM(collective.wait_ns) DESC
    LIMIT 1
"""
# A decode step with others before and after it.
_DECODE_STEP = """
    SELECT CAST(quantile_disc(step_id, 0.25) AS BIGINT) AS step_id
    FROM step
    WHERE phase = 'decode' AND rank = 0
"""
_PORT_LOCK = Path(tempfile.gettempdir()) / f"traceql-tests-port-9001-{os.getuid()}"


@contextmanager
def the_port() -> Iterator[None]:
    """Nobody else's: the Perfetto UI allows one port only, so one command at a time may have it."""
    with FileLock(_PORT_LOCK):
        yield


@contextmanager
def served(
    *arguments: str | Path, alone: bool = True, **environment: str
) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """The link that a command prints, and the command, which is ended afterwards.

    If it is not to be alone, somebody else has the port.
    """
    with the_port() if alone else nullcontext():
        process = subprocess.Popen(
            [sys.executable, "-m", "traceql", *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"BROWSER": "true"} | environment, preexec_fn=hears_ctrl_c,
        )  # fmt: skip
        try:
            assert process.stdout
            yield next((line.strip() for line in process.stdout if "://" in line), ""), process
        finally:
            process.terminate()
            process.communicate()


@contextmanager
def opened(database: Path) -> Iterator[Browser]:
    """The offline page at a few layers of decoding, drawn: what the README's picture shows."""
    with traceql.open(database) as trace:
        (shown,) = trace.sql(_SHOWN).rows()
    place = ("--step", str(shown["step_id"]), "--layer", str(shown["layer"]))
    with (
        served("ui", database, "--offline", "--no-browser", *place) as (link, _),
        Browser(WIDTH, HEIGHT) as browser,
    ):
        browser.open(f"{link}&hideSidebar=true")
        browser.wait_for_text("Roles", seconds=120)
        browser.wait_for_text(f"layer {shown['layer']}", seconds=60)
        browser.settle()
        yield browser


@contextmanager
def opened_pair(base: Path, new: Path) -> Iterator[Browser]:
    """The offline page with two runs, aligned at a decode step: the picture in docs/perfetto.md."""
    with traceql.open(base) as trace:
        (shown,) = trace.sql(_DECODE_STEP).rows()
    place = ("--step", str(shown["step_id"]))
    with (
        served("ui", base, new, "--offline", "--no-browser", *place) as (link, _),
        Browser(WIDTH, HEIGHT) as browser,
    ):
        browser.open(f"{link}&hideSidebar=true")
        browser.wait_for_text("Roles", seconds=120)
        browser.wait_for_text(f"WHERE step_id = {shown['step_id']}", seconds=60)
        browser.settle()
        yield browser


def main() -> None:
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        database, base, new = (
            traceql.load(run, Path(folder) / f"{name}.duckdb").database
            for name, run in (
                ("demo", EXAMPLE_TRACE),
                ("tp1", EXAMPLES / "qwen3-8b-tp1-graph"),
                ("tp2", EXAMPLES / "qwen3-8b-tp2-serving"),
            )
        )
        with opened(database) as page:
            page.screenshot(target / "perfetto.png")
        with opened_pair(base, new) as page:
            page.screenshot(target / "perfetto-two.png")


if __name__ == "__main__":
    main()
