"""Takes the README's picture of the report, with headless Chromium.

python docs/make_pictures.py
"""

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import traceql
from traceql.report.page import page
from traceql.resources import EXAMPLES

FOLDER = Path(__file__).parent / "pictures"
_WINDOW = "1400,1180"


def main() -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("this needs Chromium")
    with TemporaryDirectory() as folder:
        report, database = Path(folder) / "report.html", Path(folder) / "chat.duckdb"
        traceql.load([EXAMPLES / "qwen3-8b-tp2-serving"], database)
        with traceql.Trace(database) as trace:
            report.write_text(page(trace), encoding="utf-8")
        subprocess.run(
            [
                browser, "--headless=new", "--no-sandbox", "--hide-scrollbars",
                f"--window-size={_WINDOW}", f"--screenshot={FOLDER / 'report.png'}",
                report.as_uri(),
            ],
            check=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
