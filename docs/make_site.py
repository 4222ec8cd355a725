"""Builds the documents as a searchable site that needs no network.

    python docs/make_site.py    # writes site/index.html

The pages are copied to build/site in the layout of the repository, so that their links go on
working, together with every file that they link to. A link that leads nowhere stops the build.
"""

import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parent.parent
GATHERED = ROOT / "build" / "site"
SITE = ROOT / "site"
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)")
# Lets pages that are opened as files search; it would come from the internet.
_SHIM = re.compile(r'<script src="https://unpkg.com/iframe-worker/shim"[^>]*></script>')


def pages() -> list[Path]:
    return [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")),
        *(ROOT / "docs").rglob("*.md"),
    ]


def gather() -> None:
    """Copies the pages and what they link to."""
    shutil.rmtree(GATHERED, ignore_errors=True)
    for page in pages():
        text = page.read_text(encoding="utf-8")
        _copied(page).write_text(_LINK.sub(partial(_gathered, page), text), "utf-8")


def _gathered(page: Path, link: re.Match[str]) -> str:
    """The link as it is on the site, where a folder is a page that lists its files."""
    target = (page.parent / link[1]).resolve()
    if not target.is_relative_to(ROOT) or not target.exists():
        sys.exit(f"{page.relative_to(ROOT)}: the link {link[1]} leads nowhere")
    if target.is_dir():
        _list(target)
        return f"{link[0].rstrip('/')}/index.md"
    if target.suffix != ".md":
        shutil.copyfile(target, _copied(target))
    return link[0]


def _list(folder: Path) -> None:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    for file in files:
        shutil.copyfile(file, _copied(file))
    lines = [f"# {folder.name}", "", *(f"- [{file.name}]({file.name})" for file in files)]
    _copied(folder / "index.md").write_text("\n".join(lines) + "\n", "utf-8")


def _copied(path: Path) -> Path:
    copy = GATHERED / path.relative_to(ROOT)
    copy.parent.mkdir(parents=True, exist_ok=True)
    return copy


def build() -> None:
    shutil.rmtree(SITE, ignore_errors=True)
    subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT, check=True
    )
    for page in SITE.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(_SHIM.sub("", text), "utf-8")
    print("site/index.html is ready; to search it: python -m http.server --directory site")


if __name__ == "__main__":
    gather()
    build()
