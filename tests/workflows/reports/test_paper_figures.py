"""The figures of paper 000 as files: the same bytes each time, with units, one column wide, nothing of users obeyed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.ticker import FixedLocator

from daskevo.errors import InvalidInput, RunFolderUnusable
from daskevo.types import Objective
from daskevo_workflows.reports import svg as d
from daskevo_workflows.reports.arms import arms_of
from daskevo_workflows.reports.figure_files import saved, settle, write_all
from daskevo_workflows.reports.figures import PAPER
from daskevo_workflows.reports.figures.bytes_at_end import bytes_at_end
from daskevo_workflows.reports.figures.candidates import candidates
from daskevo_workflows.reports.figures.chart import COLUMN
from daskevo_workflows.reports.figures.gantt import tasks
from daskevo_workflows.reports.figures.targets import time_to_target
from daskevo_workflows.reports.series import RunSeries

NAMES = ("quality", "time-to-target", "runtime", "tasks", "storage")


@pytest.fixture
def runs(make_run: Any) -> list[RunSeries]:
    return [
        replace(
            make_run(12, seed=seed, transfer=arm != "no transfer", label=f"{arm}-{seed}"),
            arm=arm,
            identity={"seed": seed, "policy": arm},
        )
        for seed in range(2)
        for arm in ("inherit", "no transfer")
    ]


@pytest.mark.long
def test_all_are_written_the_same_each_time(runs: list[RunSeries], tmp_path: Path) -> None:
    one, other = (write_all(arms_of(runs), tmp_path / name, ["svg"]) for name in ("one", "other"))
    assert [path.name for path in one] == [*(f"{name}.svg" for name in NAMES), "captions.md"]
    assert [path.read_bytes() for path in one] == [path.read_bytes() for path in other]
    with d.settings(COLUMN.font):
        pairs = [[saved(bytes_at_end(arms_of(runs), COLUMN), form) for _ in range(2)] for form in ("png", "pdf")]
    assert [one == other for one, other in pairs] == [True, True]
    assert [one[:4] for one, _ in pairs] == [b"\x89PNG", b"%PDF"]
    assert not list((tmp_path / "one").glob("*.part"))
    for name in NAMES:
        picture = ElementTree.parse(tmp_path / "one" / f"{name}.svg").getroot()
        assert float(picture.get("width", "").removesuffix("pt")) == pytest.approx(3.4 * 72)
        assert not list(picture.iter("{http://www.w3.org/2000/svg}text"))  # outlines: no font is asked for
    captions = (tmp_path / "one" / "captions.md").read_text()
    assert [int(number) for number in re.findall(r"as Figure (\d+)", captions)] == [6, 7, 8, 9, 10]
    assert "medians of 2 runs" in captions
    assert "no transfer: nothing retired" in captions


@pytest.mark.parametrize(("name", "make"), [(name, make) for name, _, make in PAPER])
def test_axes_have_units_and_arms_are_told_apart_without_colour(name: str, make: Any, runs: list[RunSeries]) -> None:
    with d.settings(COLUMN.font):
        sketch = make(arms_of(runs), COLUMN)
        panel = sketch.figure.axes[0]
        labels = panel.get_xlabel() + panel.get_ylabel() + sketch.figure.axes[-1].get_xlabel()
        assert re.search(r"\((s|min|MiB)\)", labels), labels
        words = {text.get_text() for text in sketch.figure.legends[0].get_texts()}
        assert words >= (
            {"full copies"} if name == "storage" else {"from scratch"} if name == "tasks" else {"no transfer"}
        )
        if name == "quality":
            assert len({line.get_linestyle() for line in panel.get_lines() if line.get_label() in words}) == 2
        else:
            assert len({patch.get_hatch() for patch in panel.patches}) >= 2


def test_a_quality_nobody_reaches_has_a_star(runs: list[RunSeries], tmp_path: Path) -> None:
    write_all(arms_of(runs), tmp_path, ["svg"], targets=[0.6, 0.99])
    captions = (tmp_path / "captions.md").read_text()
    assert captions.count("0.99 never") == 2


def test_a_quality_that_half_of_the_runs_reach_is_said_as_that_everywhere(runs: list[RunSeries]) -> None:
    arms = arms_of(runs)[:1]
    low, high = sorted(run.best(1)[0].quality for run in arms[0].runs)
    with d.settings(COLUMN.font):
        sketch = time_to_target(arms, COLUMN, [low, high])
    legend = [text.get_text() for text in sketch.figure.legends[0].get_texts()]
    assert "not in more than half of the runs" in legend
    assert "a star: not in more than half of the runs" in sketch.caption
    assert "in 1 of 2 runs only" in sketch.words
    assert "never" not in sketch.words + sketch.caption
    assert [text.get_text() for text in sketch.figure.axes[0].texts] == ["1/2"]


@pytest.mark.parametrize("name", ["time-to-target", "storage"])
def test_ticks_and_layout_are_the_same_in_every_format(name: str, runs: list[RunSeries]) -> None:
    make = next(make for known, _, make in PAPER if known == name)
    with d.settings(COLUMN.font):
        sketch = make(arms_of(runs), COLUMN)
        seen = []
        for form in ("svg", "png"):
            saved(sketch, form)
            panels = sketch.figure.axes
            seen.append([(list(p.get_xticks()), list(p.get_yticks()), p.get_position().bounds) for p in panels])
    assert seen[0] == seen[1]
    assert all(type(axis.get_major_locator()) is FixedLocator for p in panels for axis in (p.xaxis, p.yaxis))
    flat = [patch for p in panels for patch in p.patches if not patch.get_height() and patch.get_y() == 0]
    assert not [patch for patch in flat if patch.get_linewidth()]  # the edge of a bar of no height would be seen


def test_no_words_of_many_long_arms_are_cut_off_or_over_each_other(runs: list[RunSeries]) -> None:
    long = "inherit, freeze what has had 300 steps, minimum layers"
    many = [replace(runs[0], arm=f"{long} {i}", identity={"policy": i}) for i in range(4)]
    with d.settings(COLUMN.font):
        for make in (candidates, bytes_at_end, lambda arms, sheet: tasks([arm.typical for arm in arms], sheet)):
            figure = make(arms_of(many), COLUMN).figure
            settle(figure)
            boxes = [
                text.get_window_extent()
                for panel in figure.axes
                for text in (*panel.get_xticklabels(), panel.xaxis.label, panel.yaxis.label, panel._left_title)
                if text.get_text() and text.get_visible()
            ]
            width, height = figure.bbox.size
            assert all(box.x0 > -1 and box.y0 > -1 and box.x1 < width + 1 and box.y1 < height + 1 for box in boxes)
            assert not [1 for i, one in enumerate(boxes) for other in boxes[:i] if one.padded(-2).overlaps(other)]


@pytest.mark.parametrize("case", ["one run", "one evaluation", "failures only"])
def test_what_there_is_to_draw_is_drawn(case: str, make_run: Any, tmp_path: Path) -> None:
    run = {
        "one run": lambda: make_run(20),
        "one evaluation": lambda: make_run(1, failures=0),
        "failures only": lambda: make_run(5, failures=1),
    }[case]()
    names = {path.stem for path in write_all(arms_of([run]), tmp_path, ["svg"])}
    # Failed evaluations have been on a trainer.
    assert names == {"tasks", "captions"} if case == "failures only" else {*NAMES, "captions"}


def test_nothing_to_draw_and_a_folder_that_is_none_are_said(make_run: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="nothing to draw yet"):
        write_all(arms_of([make_run(0)]), tmp_path, ["svg"])
    with pytest.raises(InvalidInput, match="'gif'; there are svg, png, pdf"):
        write_all(arms_of([make_run(2)]), tmp_path, ["gif"])
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderUnusable, match="File exists; name another place"):
        write_all(arms_of([make_run(2)]), tmp_path / "file", ["svg"])


@pytest.mark.long
def test_words_of_users_stay_words(make_run: Any, tmp_path: Path) -> None:
    attack = "$\\frac{<script>x</script>\x1b\n# "
    run = replace(make_run(20, label=attack), objective=Objective("max", attack), run_id=attack)
    write_all(arms_of([run, replace(run, label=attack + "2")]), tmp_path, ["svg"])
    captions = (tmp_path / "captions.md").read_text()
    assert "\x1b" not in captions
    assert captions.count("\n# ") == 0
    for name in NAMES:
        assert "<script" not in (tmp_path / f"{name}.svg").read_text()
