"""Takes the picture of the report with headless Chromium, and draws curves of an experiment.

python docs/make_pictures.py
"""

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import traceql
from traceql.present.report.run_report import page
from traceql.runs.experiment import experiment
from traceql.util.resources import EXAMPLES

FOLDER = Path(__file__).parent / "pictures"
_WINDOW = "1400,1180"
_CHART_WIDTH = 900  # pixels


def main() -> None:
    _take_report()
    _draw_curves()


def _draw_curves() -> None:
    with experiment(EXAMPLES / "experiment-h200" / "results.duckdb") as results:
        for metric in ("ttft", "tpot"):
            picture = FOLDER / f"experiment-{metric}.png"
            results.run("latency", metric=metric).save_chart(picture, width=_CHART_WIDTH)
    with experiment(EXAMPLES / "experiment-h100" / "results.duckdb") as results:
        picture = FOLDER / "experiment-tp-overhead.png"
        results.run("tp.overhead", phase="decode").save_chart(picture, width=_CHART_WIDTH)
    with experiment(EXAMPLES / "scaling-h200" / "results.duckdb") as results:
        efficiency, overhead = results.run("scaling"), results.run("tp.overhead", phase="decode")
        efficiency.save_chart(FOLDER / "scaling-efficiency.png", width=_CHART_WIDTH)
        overhead.save_chart(FOLDER / "scaling-overhead.png", width=_CHART_WIDTH)


def _take_report() -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("this needs Chromium")
    with TemporaryDirectory() as folder:
        report, database = Path(folder) / "report.html", Path(folder) / "chat.duckdb"
        traceql.load([EXAMPLES / "qwen3-8b-tp2-serving"], database)
        with traceql.Run(database) as trace:
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
