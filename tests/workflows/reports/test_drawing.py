"""Drawings: colours that follow the page and can be told apart, ids that don't collide, names that break nothing."""

from __future__ import annotations

import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.figure import Figure

from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.figures.chart import from_zero

DATA = ("blue", "orange", "green", "vermilion", "purple", "sky")

# Machado, Oliveira and Fernandes 2009, severity 1.0; they act on linear RGB.
SIGHT = {
    "all colours": np.eye(3),
    "no red cones": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green cones": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "no blue cones": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) + 0.05 for colour in (one, other))
    return light[1] / light[0]


def lab(rgb: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratios = to_xyz @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(ratios > 0.008856, np.cbrt(ratios), 7.787 * ratios + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_colours_stand_out_from_the_ground(theme: int) -> None:
    ground = d.PALETTE["paper"][theme]
    assert contrast(d.PALETTE["ink"][theme], ground) > 7  # WCAG 2.2, 1.4.6
    assert all(contrast(d.PALETTE[name][theme], ground) > 3 for name in (*DATA, "faint"))  # 1.4.11


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("sight", SIGHT)
def test_colours_are_told_apart_with_every_sight(sight: str, theme: int) -> None:
    seen = {name: lab(np.array(SIGHT[sight]) @ linear(d.PALETTE[name][theme])) for name in DATA}
    for one, other in itertools.combinations(DATA, 2):
        assert np.linalg.norm(seen[one] - seen[other]) > 12, (one, other)


def drawn(text: str = "run", name: str = "fig") -> str:
    with d.settings():
        figure = Figure(figsize=(3, 2))
        panel = figure.subplots()
        panel.plot([1, 2], [3, 4], color=d.BLUE, label=text)
        panel.bar([1], [2], color=d.ORANGE, edgecolor=d.PAPER, hatch="//")
        panel.set_title(text)
        figure.legend()
        return d.to_svg(figure, name=name, title=text, description=text)


def test_colours_are_variables_of_the_page() -> None:
    svg = drawn()
    assert "stroke: var(--blue, " in svg
    assert "fill: var(--orange, " in svg
    assert not re.findall(r"""(?:fill|stroke)(?:: ?|=['"])#[0-9a-f]{6}""", svg)


def test_ids_and_their_references_carry_the_drawings_name() -> None:
    svg = drawn(name="one")
    ids = set(re.findall(r'\bid="([^"]+)"', svg))
    assert all(name.startswith("one-") for name in ids)
    assert set(re.findall(r"url\(#([^)]+)\)", svg)) | set(re.findall(r'href="#([^"]+)"', svg)) <= ids


@pytest.mark.parametrize("text", ["$x", "a & b <c>", "$\\frac{", "日本語", "emoji 🧬", 'say "hi"'])
def test_any_name_is_drawn_as_it_is(text: str) -> None:
    root = ElementTree.fromstring(drawn(text))
    space = "{http://www.w3.org/2000/svg}"
    assert root.findtext(f"{space}title") == text
    assert text in ["".join(element.itertext()) for element in root.iter(f"{space}text")]


def test_the_longer_of_two_runs_is_shown_to_its_end() -> None:
    with d.settings():
        first, second = Figure().subplots(1, 2, sharex=True)
        first.plot([5, 150], [1, 2])
        second.plot([5, 100], [1, 2])
        from_zero([first, second])
        assert first.get_xlim() == second.get_xlim()
        assert first.get_xlim()[0] == 0
        assert first.get_xlim()[1] > 150


def test_a_users_own_settings_change_nothing() -> None:
    import matplotlib

    plain = drawn()
    with matplotlib.rc_context(
        {"text.usetex": False, "axes.facecolor": "red", "font.size": 30, "svg.fonttype": "path"}
    ):
        assert drawn() == plain
