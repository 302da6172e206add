"""Markdown pages taken apart: code, links and headings, as a code host and the site read them. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
CALL = re.compile(
    r"(?:^\s*|until |\$\()(?:\w+=\S+ )*(?:python3 start\.py|dask evo|(?:\S*/bin/)?daskevo)(?=\s+[\w-]+(?:\s|$|\)))(.*)"
)
"""A call of the program in a line of a shell; what follows it."""
PAGES = tuple(sorted([*ROOT.glob("*.md"), *(path for path in DOCS.rglob("*.md") if "_build" not in path.parts)]))


@dataclass(frozen=True)
class Code:
    """A block of code.

    Parameters
    ----------
    page, line:
        Where it stands; lines are counted from 1.
    language:
        The word behind its fence; empty for an indented block.
    text:
        What is in it.
    """

    page: Path
    line: int
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The file that it is to be, if its first line says so in a comment."""
        found = re.match(r"# ([\w-]+\.py)\n", self.text)
        return found[1] if found else None

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


@dataclass(frozen=True)
class Link:
    """A link or a picture of a page."""

    page: Path
    line: int
    target: str
    is_image: bool


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@cache
def _tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text())


def codes(page: Path) -> list[Code]:
    """Return all blocks of a page in order, directives of the site left out."""
    found = []
    for token in _tokens(page):
        if token.type in ("fence", "code_block") and token.map is not None:
            language = token.info.strip()
            if not language.startswith("{"):
                found.append(Code(page, token.map[0] + 1, language, token.content))
    return found


def spans(page: Path) -> list[tuple[int, str]]:
    """Return line and text of each piece of code within the text."""
    return [(line, child.content) for line, child in _children(page) if child.type == "code_inline"]


def links(page: Path) -> list[Link]:
    found = []
    for line, child in _children(page):
        if child.type == "link_open":
            found.append(Link(page, line, str(child.attrs["href"]), False))
        if child.type == "image":
            found.append(Link(page, line, str(child.attrs["src"]), True))
    return found


def _children(page: Path) -> Iterator[tuple[int, Token]]:
    line = 0
    for token in _tokens(page):
        line = token.map[0] + 1 if token.map else line
        for child in token.children or ():
            yield line, child


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return what may stand behind a # in a link to the page: its headings, as code hosts write them."""
    found: list[str] = []
    tokens = _tokens(page)
    for before, token in pairwise(tokens):
        if before.type == "heading_open":
            text = "".join(child.content for child in token.children or () if child.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")
            found.append(f"{slug}-{found.count(slug)}" if slug in found else slug)
    return frozenset(found)


def commands(text: str) -> list[list[str]]:
    """Return the words of each call of `daskevo` in lines for a shell.

    >>> commands('until daskevo nas digits --run "a b"; do  # comment')
    [['nas', 'digits', '--run', 'a b']]
    >>> commands("python3 start.py models ls RUN | head")
    [['models', 'ls', 'RUN']]
    >>> commands("python3 start.py test tests")
    []
    """
    found = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        match = CALL.search(line)
        end = r"; do|\s\|\s" if "$(daskevo" not in line else r"\)"
        words = [] if match is None else shlex.split(re.split(end, match[1])[0], comments=True)
        if match is not None and words[:1] not in ([["test"], ["setup"], ["docs"]]):  # of start.py itself
            found.append(words)
    return found
