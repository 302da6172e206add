"""The option for a repository's quota takes bytes as Dask has them."""

from __future__ import annotations

import click
import pytest

from daskevo_workflows.cli.nas import nas


@pytest.mark.parametrize(
    ("words", "quota"), [([], None), (["1000"], 1_000), (["500GB"], 500 * 10**9), (["1 MiB"], 2**20)]
)
def test_what_it_takes(words: list[str], quota: int | None) -> None:
    typed = [*("--quota" for _ in words), *words]
    assert nas.make_context("nas", ["digits", *typed]).params["quota"] == quota


@pytest.mark.parametrize("word", ["0", "-1", "much", ""])
def test_what_it_refuses(word: str) -> None:
    with pytest.raises(click.BadParameter, match="500 GB"):
        nas.make_context("nas", ["digits", f"--quota={word}"])
