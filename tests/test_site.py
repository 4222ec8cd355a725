"""The site of the documents is whole, and asks no other host for anything."""

import importlib.util
import re
import subprocess
import sys

import databases
import pytest

_SITE = databases.ROOT / "site"
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?([^"'\s>]+)"""
    r"""|<link\b[^>]*\bhref=["']?([^"'\s>]+)"""
)
_STYLED = re.compile(r"""url\(["']?([^"')]+)|@import\s+["']([^"']+)""")


def elsewhere(found: list[tuple[str, str]]) -> set[str]:
    """Addresses of other hosts."""
    return {url for pair in found for url in pair if re.match(r"(\w+:)?//", url)}


@pytest.mark.slow
@pytest.mark.skipif(not importlib.util.find_spec("zensical"), reason="make docs installs zensical")
def test_the_site_is_built_and_loads_nothing_from_elsewhere() -> None:
    made = subprocess.run(
        [sys.executable, str(databases.ROOT / "docs" / "make_site.py")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stdout + made.stderr  # a link or an anchor leads nowhere
    pages, styles = list(_SITE.rglob("*.html")), list(_SITE.rglob("*.css"))
    assert len(pages) > 10
    assert styles
    for page in pages:
        assert elsewhere(_LOADED.findall(page.read_text(encoding="utf-8"))) == set(), page
    for style in styles:
        assert elsewhere(_STYLED.findall(style.read_text(encoding="utf-8"))) == set(), style
    assert "kernels.top" in (_SITE / "search.js").read_text(encoding="utf-8")
