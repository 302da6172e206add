"""Every relative link, anchor and picture of README and docs leads somewhere; external hosts are known ones."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, anchors, links, name_of

HOSTS = {
    "dask.org",
    "deephyper.readthedocs.io",
    "distributed.dask.org",
    "docs.dask.org",
    "docs.python.org",
    "jobqueue.dask.org",
    "keepachangelog.com",
    "keras.io",
    "pep440.readthedocs.io",
    "semver.org",
}
"""Whom the pages link to. They are not asked whether they are there: that takes a network."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        parts = urlsplit(link.target)
        if parts.scheme:
            assert parts.scheme == "https", f"line {link.line}: {link.target}"
            assert parts.netloc in HOSTS, f"line {link.line}: {parts.netloc} is no host that is listed here"
            assert not link.is_image, f"line {link.line}: a picture from elsewhere"
            continue
        target = (page.parent / parts.path).resolve() if parts.path else page
        assert target.exists(), f"line {link.line}: {link.target} is not there"
        assert target.is_relative_to(ROOT), f"line {link.line}: {link.target} leads out of the project"
        if parts.fragment:
            assert target.suffix == ".md", f"line {link.line}: {link.target}"
            assert parts.fragment in anchors(target), f"line {link.line}: no heading for {link.target}"
        if link.is_image:
            assert target.suffix in (".png", ".svg"), f"line {link.line}: {link.target}"
            assert target.stat().st_size > 500, f"line {link.line}: {link.target}"


def test_pictures_are_used() -> None:
    used = {(link.page.parent / link.target).resolve() for page in PAGES for link in links(page) if link.is_image}
    assert sorted(path.name for path in (DOCS / "images").iterdir() if path not in used) == []


def test_pages_that_the_code_names_are_there() -> None:
    """Docstrings and messages say docs/NAME.md."""
    named = {
        (found, path)
        for folder in ("daskevo", "plugins", "workflows", "examples", ".ci")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".j2", ".yaml", ".slurm", ".pbs")
        for found in re.findall(r"\bdocs/[\w/-]+\.md\b", path.read_text())
    }
    assert named
    assert [f"{path}: {found}" for found, path in sorted(named) if not (ROOT / found).exists()] == []


def test_every_page_is_in_the_index_once() -> None:
    """Readers on a code host have no toctree: the lists of index.md are what they see."""
    listed = [(DOCS / link.target).resolve() for link in links(DOCS / "index.md") if not link.is_image]
    pages = {page for page in PAGES if page.parent == DOCS and page.name != "index.md"} | {DOCS / "api" / "index.md"}
    assert {path for path in pages if path not in listed} == set()
    modules = [(DOCS / "api" / link.target).resolve() for link in links(DOCS / "api" / "index.md")]
    assert {path for path in (DOCS / "api").glob("*.md") if path.name != "index.md"} <= set(modules)
