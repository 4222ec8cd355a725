"""Headless Chromium, without a network, for pages on disk."""

import shutil
import subprocess
from pathlib import Path

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def opened(page: Path, *, width: int, dark: bool) -> tuple[str, list[str]]:
    """The page's document after its scripts have run, and what its console said.

    Skips the test where no Chromium is installed.
    """
    browser = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("no Chromium")
    done = subprocess.run(
        [
            browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--window-size={width},900",
            f"--user-data-dir={page.parent / f'browser-{width}'}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}",
            "--dump-dom", page.as_uri(),
        ],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, said
