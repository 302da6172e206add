"""Importing Keras quietly keeps what matters."""

from __future__ import annotations

import os

import pytest

from daskevo_workflows.quiet import _without


def test_only_harmless_lines_are_held_back(capfd: pytest.CaptureFixture[str]) -> None:
    with _without((b"port.cc",)):
        os.write(2, b"I0000 port.cc:153] oneDNN custom operations are on.\nE0000 no GPU driver\n")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "E0000 no GPU driver\nafter\n"
