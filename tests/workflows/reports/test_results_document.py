"""docs/results.md: its commands run, its columns are those that there are. Its Python runs in `tests/docs`."""

from __future__ import annotations

import glob
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from daskevo_workflows import nas
from daskevo_workflows.cli import main
from daskevo_workflows.results.frames import KINDS, rows_of
from tests.workflows.reports.test_looking import several_units
from tests.workflows.reports.test_reading import written

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "results.md").read_text()


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runs that the page speaks of, three seeds with and without transfer."""
    monkeypatch.chdir(tmp_path)
    for seed in range(3):
        written(tmp_path / "runs" / f"digits-seed{seed}", seed=seed)
        written(tmp_path / "runs" / f"digits-seed{seed}-no-transfer", seed=seed, policy={"transfer": False})
    return tmp_path / "runs"


@pytest.mark.long
def test_its_commands_run(runs: Path) -> None:
    called = re.findall(r"^    daskevo (.*)$", PAGE, re.MULTILINE)
    assert len(called) == 4
    for line in called:
        words = [found for word in shlex.split(line) for found in (sorted(glob.glob(word)) or [word])]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
    page = (runs / "digits-seed0" / "report-with-digits-seed1-and-4-more.html").read_text()
    assert "medians of 3 runs" in page


def test_its_columns_are_those_of_the_frames(runs: Path, tmp_path: Path) -> None:
    several_units(tmp_path / "units")
    look = nas.look(tmp_path / "units"), nas.look(runs / "digits-seed0")
    for kind in KINDS:
        (cells,) = re.findall(rf"^\| `{kind}` \| [^|]+ \| (.*) \|$", PAGE, re.MULTILINE)
        said = set(re.findall(r"`([a-z_]+|[a-z]+:NAME)`", cells)) - {"published", "gone", "storage", "load"}
        had = {name for result in look for row in rows_of(result, kind) for name in row}
        plain = {re.sub(r"^(metric|choice|fact):.*", r"\1:NAME", name) for name in had}
        phases = {"inherit_s", "training_s"}
        assert said - {"_s"} == plain - phases


def test_its_pictures_are_there() -> None:
    pictures = re.findall(r"\]\((images/[^)]+)\)", PAGE)
    assert len(pictures) == 6
    for name in pictures:
        assert (DOCS / name).stat().st_size < 200_000, name
