"""Which tests run: those that are named, else the quick ones; `--all` and `--part K/N` add long ones.

A test is long by its marker, `long` (CONTRIBUTING.md says when it has that).
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec

import pytest

# The examples of these modules need an optional package.
collect_ignore = [] if find_spec("ConfigSpace") else ["daskevo/space/configurations.py"]


def part(text: str) -> tuple[int, int]:
    """Return which part, of how many, ``K/N`` names."""
    words = text.split("/")
    if len(words) != 2 or not all(word.isdecimal() for word in words) or not 1 <= int(words[0]) <= int(words[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no part K/N such as 2/5, from 1/N to N/N")
    return int(words[0]), int(words[1])


def deal(files: Sequence[str], parts: int) -> dict[str, int]:
    """Return the part of each file with long tests, from the file of each such test.

    A file's tests may share a cluster, so they stay together. Whichever has most goes first, to the emptiest part.
    """
    sizes, dealt = [0] * parts, {}
    for file, size in sorted(Counter(files).items(), key=lambda item: (-item[1], item[0])):
        emptiest = sizes.index(min(sizes))
        sizes[emptiest] += size
        dealt[file] = emptiest + 1
    return dealt


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("long tests")
    group.addoption("--all", action="store_true", help="run the long tests as well as the quick ones")
    group.addoption("--part", type=part, metavar="K/N", help="run the quick tests and the K-th of N parts of the long")


def pytest_configure(config: pytest.Config) -> None:
    # pytest-xdist gives its workers the options, and names all folders to them.
    named = config.args_source is config.ArgsSource.ARGS and not hasattr(config, "workerinput")
    if config.option.part is None and named:
        config.option.all = True


def pytest_report_header(config: pytest.Config) -> str:
    if config.option.all:
        return "long tests: all"
    if config.option.part is None:
        return "long tests: none (--all runs them, --part K/N a part of them)"
    return "long tests: part {} of {}".format(*config.option.part)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.all:
        return
    mine, parts = config.option.part or (0, 1)
    long = [item for item in items if item.get_closest_marker("long")]
    dealt = deal([_file(item) for item in long], parts)
    left = {item for item in long if dealt[_file(item)] != mine}
    config.hook.pytest_deselected(items=[item for item in long if item in left])
    items[:] = [item for item in items if item not in left]


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
