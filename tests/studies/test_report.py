"""The report of a study: its accounts, its best, its tree, while it goes on and after, whatever trials are called."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from daskevo.errors import InvalidInput
from daskevo.search import Grid, PopulationBasedTraining
from daskevo.tuning import Trajectory
from daskevo_plugins.formatting import say_qualities
from daskevo_workflows.cli import main
from daskevo_workflows.cli.report import report
from daskevo_workflows.reports import write_report
from daskevo_workflows.reports.study_page import render_study
from daskevo_workflows.reports.study_reader import read_study
from tests.studies.pretending import constants, pretended, small_grid
from tests.studies.threads import Fault, ThreadCrew
from tests.workflows.reports.test_page import ATTACK, Page, drawings
from tests.workflows.reports.test_reading import written


def test_the_report_says_what_the_study_says(tmp_path: Path) -> None:
    bad = small_grid().configuration(list(small_grid().enumerate())[-1])

    def breaks(trajectory: Trajectory, step: int) -> None:
        if trajectory.configuration.key(step) == bad.key(16):
            raise Fault("error")

    with pretended(ThreadCrew("t0", "t1", before_step=breaks), tmp_path) as study:
        result = study.run(Grid())
        path = result.report()
        (best,) = result.best()
    assert path == tmp_path / "run" / "report.html"
    text = path.read_text("utf-8")
    page = Page(text)
    assert page.tags["script"] == page.tags["link"] == 0
    assert not [name for name, times in page.ids.items() if times > 1]
    series = read_study(tmp_path / "run")
    assert series.figures == result.figures
    assert series.best[0].quality == best.quality
    assert series.best[0].configuration == best.configuration
    assert len({trial.key for trial in series.best}) == 10
    steps = series.tree.steps()
    assert steps["waiting"] == steps["running"] == 0
    assert steps["done"] == result.figures.unique_steps
    assert steps["failed"] == 8
    assert "error: " in series.failures[0][1]
    for words in ("The stage tree", "merge rate", "11", f"{best.quality:.4g}", "Failed requests", "0.1 → 0.01"):
        assert words in page.words
    tree, *sparks = drawings(text)
    space = "{http://www.w3.org/2000/svg}"
    assert len(tree.findall(f".//{space}rect[@class='done']")) > 11
    assert any("trial-0" in "".join(title.itertext()) for title in tree.iter(f"{space}title"))
    assert sparks
    # From the record alone, by the command.
    answer = CliRunner().invoke(report, [str(tmp_path / "run"), "--output", str(tmp_path / "again.html")])
    assert answer.exit_code == 0, answer.output
    assert "The stage tree" in (tmp_path / "again.html").read_text("utf-8")
    said = CliRunner().invoke(main, ["status", str(tmp_path / "run")]).stdout
    assert f"of which {result.figures.unique_steps} differ" in said
    assert f" {say_qualities([one.quality for one in series.best[:3]])[0]}  step {best.step}  " in said
    line = json.loads(CliRunner().invoke(main, ["status", str(tmp_path / "run"), "--json"]).stdout)
    assert (line["trained_steps"], line["best"]["quality"]) == (result.figures.trained_steps, best.quality)
    with pytest.raises(InvalidInput, match="beside"):
        write_report(tmp_path / "run", written(tmp_path / "search"))


def test_while_it_goes_on_it_shows_who_trains_what(tmp_path: Path) -> None:
    all_asked, came, go_on = threading.Event(), threading.Event(), threading.Event()

    def waits(trajectory: Trajectory, step: int) -> None:
        assert all_asked.wait(60)
        if step > 4:
            came.set()
            assert go_on.wait(60)

    crew = ThreadCrew("t0", before_step=waits)
    with pretended(crew, tmp_path) as study:
        futures = [study.submit(candidate, 16) for candidate in small_grid().enumerate()]
        crew.settle()
        all_asked.set()
        assert came.wait(60)
        study.controller.call(lambda: None)
        series = read_study(tmp_path / "run")
        running = [span for branch in series.tree.branches for span in branch.spans if span.progress == "running"]
        assert {span.trainer for span in running} == {"t0"}
        assert series.tree.steps()["done"] == 4
        assert series.tree.steps()["waiting"] > 50
        assert series.pending == 12
        assert "running, or killed" in Page(render_study(series, version="1")).words
        futures[0].cancel()
        go_on.set()
        for future in futures[1:]:
            future.result(60)
    over = read_study(tmp_path / "run").tree.steps()
    assert over["running"] == over["waiting"] == 0


def test_clones_are_branches_of_what_they_continue(tmp_path: Path) -> None:
    with pretended(ThreadCrew("t0", "t1"), tmp_path, constants()) as study:
        study.run(PopulationBasedTraining(2, 8, population=6, share=0.25, rounds=1))
    tree = read_study(tmp_path / "run").tree
    assert sum(branch.parent is None for branch in tree.branches) == 6
    assert any(branch.parent is not None for branch in tree.branches)


def test_a_study_without_a_trial_is_a_page(tmp_path: Path) -> None:
    with pretended(ThreadCrew("t0"), tmp_path) as study:
        text = study.result().report(tmp_path / "empty.html").read_text("utf-8")
    assert "No trial has been asked for yet." in Page(text).words


def test_words_of_users_and_exceptions_stay_words(tmp_path: Path) -> None:
    with pretended(ThreadCrew("t0"), tmp_path) as study:
        study.run(Grid())
    series = read_study(tmp_path / "run")
    best = tuple(replace(trial, trials=(ATTACK,), metrics={ATTACK: 1.0}) for trial in series.best)
    branches = tuple(
        replace(
            branch, changes={ATTACK: (ATTACK, ATTACK)}, spans=tuple(s._replace(trials=(ATTACK,)) for s in branch.spans)
        )
        for branch in series.tree.branches
    )
    hostile = replace(
        series,
        label=ATTACK,
        state=ATTACK,
        best=best,
        tree=replace(series.tree, branches=branches, unit=ATTACK),
        failures=((ATTACK, ATTACK),),
        facts={ATTACK: ATTACK},
    )
    text = render_study(hostile, version="1")
    page = Page(text)
    assert page.tags["script"] == page.tags["img"] == 0
    assert page.handlers == []
    assert drawings(text)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_a_browser_shows_the_tree(tmp_path: Path) -> None:
    """With the page's own rules on what it may load: bars as wide as their steps, in the colours of the page."""
    with pretended(ThreadCrew("t0", "t1"), tmp_path) as study:
        path = study.run(Grid()).report()
    measure = "[...document.querySelectorAll('rect.done')].map(r => [r.getBBox().width, getComputedStyle(r).fill])"
    probe = f"<script>document.title = JSON.stringify({measure})</script>"
    text = path.read_text("utf-8")
    assert "default-src 'none'" in text
    text = re.sub(r"<meta http-equiv=.Content-Security-Policy.*?>", "", text)
    (tmp_path / "probe.html").write_text(text.replace("</body>", f"{probe}</body>"))
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'browser'}", "--dump-dom"]
    shown = subprocess.run(
        ["chromium", *options, f"file://{tmp_path / 'probe.html'}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout
    title = re.search(r"<title>(\[\[.*?)</title>", shown)
    assert title is not None
    bars = re.findall(r"\[([\d.]+),\"(rgb[^\"]+)\"\]", title[1])
    assert len(bars) > 12
    assert len({colour for _, colour in bars}) == 1
    # 16 steps are 646 wide; a step is as wide in every row.
    widths = {round(float(width) / (646 / 16), 1) for width, _ in bars[1:]}
    assert widths <= {4.0, 8.0, 12.0, 16.0}
