"""The option for an evaluation's limit takes seconds and two words."""

from __future__ import annotations

import click
import pytest

from daskevo_workflows.cli.nas import nas


@pytest.mark.parametrize(("words", "limit"), [([], "auto"), (["auto"], "auto"), (["none"], "none"), (["2.5"], 2.5)])
def test_what_it_takes(words: list[str], limit: float | str) -> None:
    typed = [*("--evaluation-limit" for _ in words), *words]
    assert nas.make_context("nas", ["digits", *typed]).params["evaluation_limit"] == limit


@pytest.mark.parametrize("word", ["0", "-1", "soon"])
def test_what_it_refuses(word: str) -> None:
    with pytest.raises(click.BadParameter, match=word):
        nas.make_context("nas", ["digits", f"--evaluation-limit={word}"])
