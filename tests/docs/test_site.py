"""The site is built without a warning and without the network, has all public names, and loads nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import DOCS, PAGES
from tests.test_public_api import PUBLIC

pytestmark = pytest.mark.long

BUILD = """
import socket, sys
def refuse(*_): raise OSError("a site is built without the network")
socket.socket.connect = socket.getaddrinfo = refuse
from sphinx.cmd.build import main
raise SystemExit(main(sys.argv[1:]))
"""


class _Page(HTMLParser):
    """What a page of HTML loads, links to and offers to be linked to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.ids.add(str(found["id"]))
        if tag in ("script", "img", "iframe") and found.get("src"):
            self.loads.append(str(found["src"]))
        if tag == "link" and found.get("href") and found.get("rel") not in ("canonical",):
            self.loads.append(str(found["href"]))
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sphinx", reason="Sphinx isn't installed: pip install 'daskevo[docs]'")
    folder = tmp_path_factory.mktemp("site")
    options = ["-W", "--keep-going", "-n", "-q", "-d", str(folder / "trees")]
    done = subprocess.run(
        [sys.executable, "-c", BUILD, *options, str(DOCS), str(folder / "html")],
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path.read_text()) for path in site.rglob("*.html") if "_static" not in path.parts}


def test_every_page_is_there(site: Path) -> None:
    for page in PAGES:
        if page.is_relative_to(DOCS):
            assert (site / page.relative_to(DOCS)).with_suffix(".html").exists()


def test_nothing_is_loaded_from_elsewhere(site: Path, pages: dict[Path, _Page]) -> None:
    assert [load for page in pages.values() for load in page.loads if urlsplit(load).netloc] == []
    for style in site.rglob("*.css"):
        assert re.findall(r"@import|url\((?!['\"]?(?:data:|[\w./#-]))", style.read_text()) == [], style
        assert not re.search(r"url\(['\"]?(?:https?:)?//", style.read_text()), style


def test_every_link_within_the_site_leads_somewhere(pages: dict[Path, _Page]) -> None:
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or path.name in ("genindex.html", "search.html"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.name}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].ids | {"top"}, f"{path.name}: {link}"


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    from sphinx.util.inventory import InventoryFile

    with (site / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, path: path)
    there = {name for kind, names in inventory.items() if kind.startswith("py:") for name in names}
    missing = {f"{module}.{name}" for module, names in PUBLIC.items() for name in names} - there
    assert sorted(missing) == []
