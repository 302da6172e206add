"""Models of a run that its repository doesn't have: retired by force, cut off, or in the original of a copy."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daskevo.errors import InvalidInput, ModelRetired, RunMismatch
from daskevo.protocol.hashing import shard_of
from daskevo.runs import RunRecord
from daskevo.search import Report, Request
from daskevo.space import Candidate
from daskevo.store.root import Root
from daskevo.types import ModelId
from daskevo_workflows import nas
from daskevo_workflows.cli import main
from daskevo_workflows.cli.nas import _say_result
from daskevo_workflows.cli.paths import root_for_run
from tests.runs.identity import IDENTITY

GOLDEN = Path(__file__).parents[2] / "corpus" / "golden" / "v1" / "root"
QUALITIES = {"first": 0.95, "Second": 0.9, "third": 0.1}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of three models of which the best, ``first``, has been retired."""
    folder = tmp_path / "run"
    root = folder / "repository"
    shutil.copytree(GOLDEN, root)
    about = {"repository": str(root), "repository_id": Root.open(root).repository_id, "scope": "test"}
    record = RunRecord(folder, IDENTITY | {"objective": "max score"}, about)
    for number, (name, quality) in enumerate(QUALITIES.items()):
        record.asked([Request(number, ModelId(name), Candidate((number,)))])
        report = Report(
            number, ModelId(name), "finished", quality=quality, metrics={"score": quality}, started=1, ended=2
        )
        record.reported(report, [], [])
    record.close("finished")
    return folder


def typed(*words: Any) -> Result:
    return CliRunner().invoke(main, [*map(str, words)])


def test_status_report_and_the_end_of_a_search_mark_them(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = typed("status", run).stdout.splitlines()
    assert [line.split()[-2:] for line in lines[-3:]] == [["first", "retired"], ["0.90", "Second"], ["0.10", "third"]]
    page = Path(typed("report", run).stdout.strip()).read_text()
    assert "first †" in page
    assert "† retired: its figures stay, its weights are gone." in page
    assert "Second †" not in page
    _say_result(nas.look(run), err=False, save=False)
    for name in ("best.keras", "report.html"):  # newer than the last report: not written again
        (run / name).touch()
    with main.make_context("daskevo", ["nas", "digits"]):
        _say_result(nas.look(run), err=False, since=0)
    shown = capsys.readouterr().out
    assert f"best model: {run / 'best.keras'} (Second, the best that has not been retired)\n" in shown
    assert "first  retired\n" in shown
    assert "Second\n" in shown


def test_its_weights_are_gone_and_the_next_best_is_found(run: Path) -> None:
    result = nas.look(run)
    best = result.best(2)
    assert [(found.model_id, found.state) for found in best] == [("first", "retired"), ("Second", "published")]
    with pytest.raises(ModelRetired, match=r"its weights are gone.*result\.best\(k, living=True\) leaves such models"):
        _ = best[0].model
    assert [found.model_id for found in result.best(1, living=True)] == ["Second"]
    assert [found.model_id for found in result.best(9, living=True)] == ["Second", "third"]
    for living in (False, True):
        with pytest.raises(InvalidInput, match="k=0 is no number of models"):
            result.best(0, living=living)
    opened = nas.look(run, repository=result.repository)
    assert [found.model_id for found in opened.best(1, living=True)] == ["Second"]
    moved = run.parent / "moved"
    (run / "repository").rename(moved)
    assert nas.look(run).best(1)[0].state is None
    assert nas.look(run, repository=moved).best(1)[0].state == "retired"


def test_where_none_lives_the_list_is_empty(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "daskevo_workflows.results.result.look_up", lambda folder, models, root: dict.fromkeys(models, "retired")
    )
    assert nas.look(run).best(2, living=True) == []


def test_a_copy_without_its_repository_is_told_whose_it_reads(run: Path) -> None:
    copy = run.parent / "copy"
    copy.mkdir()
    for name in ("run.json", "run.sqlite"):
        shutil.copy(run / name, copy)
    said = typed("models", "ls", copy)
    assert said.exit_code == 0
    assert f"{copy} is a copy of the run in {run} without a repository of its own" in said.stderr
    assert f"; that of {run}, of which this is a copy" in typed("status", copy).stdout
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    for words in (["models", "retire", copy, "third"], ["verify", copy, "--repair"]):
        refused = typed(*words)
        assert refused.exit_code == 2
        assert f"{copy} is a copy of the run in {run}, which has the repository" in refused.stderr
    with pytest.raises(RunMismatch, match="is a copy of the run in"):
        root_for_run(copy, None)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    # A whole copy has its own.
    whole = run.parent / "whole"
    shutil.copytree(run, whole)
    assert "is a copy" not in typed("models", "ls", whole).stderr
    assert root_for_run(whole, None) == whole / "repository"


def test_what_a_cut_journal_hides_is_said(run: Path) -> None:
    journal = run / "repository" / "shards" / f"{shard_of(ModelId('Second'), 2):03d}" / "journal.1"
    os.truncate(journal, journal.stat().st_size // 2)
    listed = typed("models", "ls", run)
    assert listed.exit_code == 1
    assert "Models may be missing here. What is lost says\n    evo verify" in listed.stderr
    assert typed("models", "ls", run, "--json").exit_code == 1
    assert "It looks damaged: evo verify" in typed("models", "show", run, "Second").stderr
    assert any(line.endswith("Second  not in its repository") for line in typed("status", run).stdout.splitlines())


def test_the_best_that_are_not_there_are_no_reason_to_export_others(run: Path) -> None:
    for journal in (run / "repository").glob("shards/*/journal.1"):
        content = journal.read_bytes()
        # As it was when nothing had been put: all after the head.
        journal.write_bytes(content[: content.index(b"\x9eEVr") + 20])
    refused = typed("models", "export", run, "--best", "1", run.parent / "winners")
    assert refused.exit_code == 2
    assert "UnknownModel: the best of the run in" in refused.stderr
    assert "evo verify" in refused.stderr
    assert not (run.parent / "winners").exists()
