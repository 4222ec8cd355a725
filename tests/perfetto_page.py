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
_LAYER = """
    SELECT kernel.step_id AS step, kernel.layer
    FROM collective
    INNER JOIN kernel ON collective.kernel_id = kernel.id
    INNER JOIN step USING (step_id)
    WHERE step.phase = 'decode' AND kernel.rank = 0 AND kernel.layer BETWEEN 3 AND 60
    GROUP BY ALL
    ORDER BY SUM(collective.wait_ns) DESC
    LIMIT 1
"""
# A decode step with others before and after it.
_STEP = """
    SELECT CAST(quantile_disc(step_id, 0.25) AS BIGINT) AS step
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
def opened(*databases: Path) -> Iterator[Browser]:
    """The offline page, drawn: a few layers of decoding, or two runs aligned at a decode step."""
    one = len(databases) == 1
    select, text = (_LAYER, "layer {layer}") if one else (_STEP, "WHERE step_id = {step}")
    with traceql.open(databases[0]) as trace:
        (shown,) = trace.sql(select).rows()
    place = [word for name, value in shown.items() for word in (f"--{name}", str(value))]
    with (
        served("ui", *databases, "--offline", "--no-browser", *place) as (link, _),
        Browser(WIDTH, HEIGHT) as browser,
    ):
        browser.open(f"{link}&hideSidebar=true")
        browser.wait_for_text("Roles", seconds=120)
        browser.wait_for_text(text.format(**shown), seconds=60)
        browser.settle()
        yield browser


def main() -> None:
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            "demo": EXAMPLE_TRACE,
            "tp1": EXAMPLES / "qwen3-8b-tp1-graph",
            "tp2": EXAMPLES / "qwen3-8b-tp2-serving",
        }
        database, base, new = (
            traceql.load(run, Path(folder, f"{name}.duckdb")).database for name, run in runs.items()
        )
        with opened(database) as page:
            page.screenshot(target / "perfetto.png")
        with opened(base, new) as page:
            page.screenshot(target / "perfetto-two.png")


if __name__ == "__main__":
    main()
