"""`python -m benchmarks.nas` at toy size, and the accounts that its figures rest on."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.nas.__main__ import main
from benchmarks.nas.overhead import Overhead, Spans, overhead_table
from benchmarks.nas.repository_part import STEPS, repository_share


def test_overhead_is_what_no_user_function_took() -> None:
    """Two workers, two evaluations each: 1 s of training, a pause of 0.25 s between, 0.5 s of storing in the last."""
    spans = Spans()
    for begun in (0.0, 1.25):
        spans.add(begun, begun + 1.0)
    spans.add(0.0, 1.0)
    spans.add(1.25, 2.75, own_s=1.0)
    assert spans.overhead(2) == pytest.approx((2 * 2.75 - 4.0) / 2)
    alone = Spans()
    for begun in (0.0, 1.1, 2.2):
        alone.add(begun, begun + 1.0)
    assert alone.overhead(1) == pytest.approx(0.1)


def test_the_repositorys_share_is_of_all_time() -> None:
    one = dict.fromkeys(STEPS, 0.1) | {"evaluation": 2.0}
    other = dict.fromkeys(STEPS, 0.0) | {"evaluation": 3.0}
    assert repository_share([one, other]) == pytest.approx(0.1)


def test_absent_rivals_are_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    text = str(overhead_table([Overhead("daskevo", 1, 0.02), Overhead("Optuna", 1, None)], 0.5, 4))
    assert "Not installed: Optuna, DeepHyper, KerasTuner." in text
    assert "–" in text


@pytest.mark.long
@pytest.mark.processes
def test_the_command(tmp_path: Path) -> None:
    plot = tmp_path / "nas.svg"
    done = CliRunner().invoke(main, ["--quick", "--json", "--plot", str(plot)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout.splitlines()[-1])
    assert set(value) == {"steps", "repository", "overhead"}
    assert value["steps"]["problem"] == "digits"
    assert value["steps"]["fit"]["first_step"] > 0 < value["steps"]["fast_fit"]["first_step"]
    assert set(value["repository"]) == {*(f"{step}_ms" for step in STEPS), "share"}
    assert 0 < value["repository"]["share"] < 1
    frameworks = ["daskevo", "Dask futures alone", "Optuna", "DeepHyper", "KerasTuner"]
    assert [one["framework"] for one in value["overhead"]] == frameworks
    assert plot.read_text().lstrip().startswith("<?xml")
