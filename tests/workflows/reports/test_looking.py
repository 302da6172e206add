"""A run is looked at without a cluster and without a change, whatever its folder holds; and as frames."""

from __future__ import annotations

import builtins
import csv
import io
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import daskevo
from daskevo.errors import InvalidInput, RootUnusable, RunFolderUnusable
from daskevo.protocol.scopes import check_scope
from daskevo.runs import RunRecord, RunView, Unit
from daskevo.store.root import Root
from daskevo_workflows import nas
from daskevo_workflows.cli import main
from daskevo_workflows.cli.json_lines import NAS_KEYS
from daskevo_workflows.cli.nas import _say_result
from daskevo_workflows.cli.status import lives
from daskevo_workflows.reports.arms import arm_names, arms_of, labelled
from daskevo_workflows.reports.run_reader import read_run
from daskevo_workflows.reports.tables import cards, transfer_summary
from daskevo_workflows.results.frames import rows_of, write_csv
from daskevo_workflows.results.look import rows_of_runs
from tests.logs import said_by_daskevo
from tests.workflows.reports.test_reading import finished, identity, request, written

GOLDEN = Path(__file__).parents[2] / "corpus" / "golden" / "v1"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_stopped_run_is_looked_at_as_its_search_returned_it(tmp_path: Path) -> None:
    folder = written(tmp_path / "flights")
    before = contents(folder)
    result = nas.look(folder)
    assert [found.quality for found in result.best(5)] == [0.61, 0.6]
    assert result.stop == ("time limit", "the time limit is over")
    assert result.summary()["evaluations"] == 2
    assert result.choices(result.requests[1]) == {"width": 32, "activation": None}
    assert contents(folder) == before
    with pytest.raises(RootUnusable, match="had its repository in memory"):
        _ = result.best()[0].model


def test_a_record_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counted(name: str, original: Any) -> Any:
        return lambda view, *rest: (read.append(name), original(view, *rest))[1]

    for name in ("requests", "reports", "units", "events"):
        monkeypatch.setattr(RunView, name, counted(name, getattr(RunView, name)))
    nas.look(written(tmp_path / "flights"))
    assert sorted(read) == ["events", "reports", "requests", "units"]


def test_its_repository_is_opened_when_it_is_asked_for(tmp_path: Path) -> None:
    check_scope("test")
    shutil.copytree(GOLDEN / "root", tmp_path / "root")
    about = {"repository": str(tmp_path / "root"), "scope": "test"}
    record = RunRecord(tmp_path / "run", identity(), about)
    record.asked([request(0)])
    record.close()
    moved = tmp_path / "moved"
    assert [model.model_id for model in nas.look(tmp_path / "run").repository.models("test")] == ["Second", "third"]
    (tmp_path / "root").rename(moved)
    with pytest.raises(RootUnusable, match=r"say where it is now, look\(run, repository="):
        _ = nas.look(tmp_path / "run").repository
    assert nas.look(tmp_path / "run", repository=moved).repository.scope == "test"
    opened = daskevo.open(moved, "test")
    assert nas.look(tmp_path / "run", repository=opened).repository is opened


def test_a_run_that_another_process_writes_is_read_as_of_one_moment(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, identity())
    record.asked([request(0)])
    record.close()

    def go_on() -> None:
        record = RunRecord(tmp_path, identity())
        record.asked([request(1)])
        record.reported(finished(1, 1.0), [request(1).model_id], [])
        record.close()

    writer = threading.Thread(target=go_on)
    with RunView(tmp_path) as view:
        with view.still():
            assert len(view.requests()) == 1
            writer.start()
            writer.join(0.5)
            assert (view.reports(), view.population(), len(view.sessions())) == ([], [], 1)
        writer.join()
        assert len(view.reports()) == len(view.population()) == 1
    assert nas.look(tmp_path).series.finished[0].number == 1


def test_a_run_that_goes_on_has_no_end_yet(tmp_path: Path) -> None:
    record = RunRecord(tmp_path, identity())
    record.asked([request(0), request(1)])
    record.reported(finished(0, 1.0), [], [])
    result = nas.look(tmp_path)
    assert result.stop == ("", "")
    assert [row["status"] for row in rows_of(result)] == ["finished", "pending"]
    said = CliRunner().invoke(main, ["status", str(tmp_path)]).stdout
    assert "running; 1 evaluation without a report; last heard of" in said
    record.close()


def test_a_process_is_asked_for_on_its_own_host_only() -> None:
    here, child = socket.gethostname(), subprocess.Popen(["true"])
    child.wait()
    assert [lives(f"{os.getpid()} on {here}"), lives(f"{child.pid} on {here}")] == [True, False]
    assert [lives(f"{os.getpid()} on {here}-2"), lives(f"0 on {here}"), lives("")] == [None] * 3


def test_status_of_a_copy_names_the_repository_inside(tmp_path: Path) -> None:
    root = Root.create(tmp_path / "run" / "repository")
    about = {"repository": str(tmp_path / "run" / "repository"), "repository_id": root.repository_id, "scope": "s"}
    RunRecord(tmp_path / "run", identity(), about=about).close()
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    said = CliRunner().invoke(main, ["status", str(tmp_path / "copy")]).stdout
    assert f"{tmp_path / 'copy' / 'repository'}, scope s" in said


def half(folder: Path, name: str) -> None:
    (folder / name).unlink()


def version(folder: Path, number: int) -> None:
    text = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(text | {"version": number}))


def tables(folder: Path) -> None:
    with sqlite3.connect(folder / "run.sqlite") as connection:
        connection.execute("PRAGMA user_version = 2")
        connection.execute("ALTER TABLE reports RENAME COLUMN report TO said")
    connection.close()


def only(folder: Path, made: str) -> None:
    shutil.rmtree(folder)
    if made == "empty":
        folder.mkdir()
    elif made == "above":
        written(folder / "mine")
        written(folder / "yours")
    elif made == "repository":
        Root.create(folder, shards=1)
    elif made == "file":
        folder.write_text("")
    elif made == "other":
        folder.mkdir()
        (folder / "notes.txt").write_text("")


NOT_A_RUN = {
    "no folder": (lambda folder: only(folder, "none"), "there is no folder .*name the folder of a run"),
    "a file": (lambda folder: only(folder, "file"), "is a file: name the folder of a run"),
    "empty": (lambda folder: only(folder, "empty"), "holds no run: it is empty. Name the folder"),
    "something else": (lambda folder: only(folder, "other"), r"holds no run: it has no run\.json"),
    "a folder of runs": (lambda folder: only(folder, "above"), "it has 2 below it; name one: .*mine, .*yours"),
    "a repository": (lambda folder: only(folder, "repository"), "it is a repository.*daskevo models ls"),
    "without description": (lambda folder: half(folder, "run.json"), r"run\.json is missing.*restore it from a copy"),
    "without record": (lambda folder: half(folder, "run.sqlite"), r"run\.sqlite can't be read.*restore it from a copy"),
    "older description": (lambda folder: version(folder, 0), "version 0; this daskevo reads .*the daskevo that wrote"),
    "later description": (lambda folder: version(folder, 2), "a later version of daskevo.*it has version 2"),
    "later tables": (tables, "is of version 2, this daskevo reads and writes 1: a later daskevo wrote it; use"),
}


@pytest.mark.parametrize("case", NOT_A_RUN)
def test_a_folder_that_is_no_run_says_what_it_is(case: str, tmp_path: Path) -> None:
    make, words = NOT_A_RUN[case]
    folder = written(tmp_path / "run")
    make(folder)
    before = contents(tmp_path)
    with pytest.raises(RunFolderUnusable, match=words):
        nas.look(folder)
    with pytest.raises(RunFolderUnusable, match=words):
        nas.figures([folder], tmp_path / "figures")
    assert contents(tmp_path) == before
    for command in (["status", str(folder)], ["frame", str(folder)]):
        said = CliRunner().invoke(main, command)
        assert said.exit_code == 2
        assert not said.stdout


def test_a_study_is_not_a_search(tmp_path: Path) -> None:
    RunRecord(tmp_path, identity(strategy={"name": "a study", "settings": {}})).close()
    with pytest.raises(InvalidInput, match=r"holds a study.*daskevo status"):
        nas.look(tmp_path)
    with pytest.raises(InvalidInput, match=r"holds a study.*draws its stage tree"):
        nas.figures([tmp_path], tmp_path / "figures")


def test_a_run_of_an_older_version_is_read(tmp_path: Path) -> None:
    """Its candidates can't be told, as its space isn't there, and reports have no reasons: the rest is."""
    shutil.copytree(GOLDEN / "run", tmp_path / "run")
    result = nas.look(tmp_path / "run")
    assert [row["status"] for row in rows_of(result)] == ["finished", "failed"]
    said = CliRunner().invoke(main, ["status", str(tmp_path / "run")])
    assert said.exit_code == 0, said.output
    assert "in memory: gone with its cluster" in said.stdout


def test_status_says_why_little_is_frozen_where_much_is_inherited(tmp_path: Path) -> None:
    policy = {"transfer": True, "freeze": "steps:300"}
    folder = written(tmp_path / "run", policy=policy)
    said = CliRunner().invoke(main, ["status", str(folder)])
    assert "2 of 40 finished, 1 failed, 1 repeated" in said.stdout
    assert "1 of 2 evaluations inherited a prefix; 20 % of all vertices were frozen (a layer is frozen" in said.stdout
    line = json.loads(CliRunner().invoke(main, ["status", str(folder), "--json"]).stdout)
    assert list(line) == [*NAS_KEYS, "state"]
    assert line["best_quality"] == 0.61


def test_the_end_of_a_search_and_its_report_say_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = "a layer is frozen once it has had 300 steps; until then what is inherited trains on"
    result = nas.look(written(tmp_path / "run", policy={"transfer": True, "freeze": "steps:300"}))
    _say_result(result, err=False, save=False)
    ended = capsys.readouterr().out
    assert f"20 % of all vertices were frozen: {rule}." in ended
    stored = "150 B for 2 living models; full copies would take 800 B (5.3×)"
    assert f"Stored: {stored}.\n  1. val_auc 0.61  run-00001\n  2. val_auc 0.60  run-00000\n" in ended
    said = CliRunner().invoke(main, ["status", str(tmp_path / "run")]).stdout
    assert f" {stored}\n" in said
    assert " ended: the time limit is over; 1 evaluation to be taken up again\n" in said
    assert "val_auc 0.61  run-00001\n" in said
    assert "val_auc 0.60  run-00000\n" in said
    assert cards(result.series)[2].note == f"1 inherited a prefix; {rule}"
    assert ("frozen, share of all vertices", f"20 %: {rule}") in transfer_summary(result.series)
    control = nas.look(written(tmp_path / "control", policy={"transfer": False}))
    _say_result(control, err=False, save=False)
    assert "2 evaluations in" in (ended := capsys.readouterr().out)
    assert "nothing was inherited, as this run is without transfer. It ended because" in ended
    assert cards(control.series)[2].note == "without transfer"
    assert [path.name for path in result.figures(formats=["svg"])][-2:] == ["storage.svg", "captions.md"]
    assert (tmp_path / "run" / "figures" / "quality.svg").exists()


def test_frames_of_several_runs_say_which(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    one = written(tmp_path / "mine")
    other = written(tmp_path / "control", policy={"transfer": False}, seed=8)
    frame = nas.frames([one, other])
    assert list(frame.columns[:4]) == ["run", "arm", "seed", "number"]
    assert dict(frame.groupby("run").size()) == {"mine": 5, "control": 5}
    assert set(frame[frame["arm"] == "no transfer"]["seed"]) == {8}
    row = frame[(frame["run"] == "mine") & (frame["number"] == 1)].iloc[0]
    assert (row["ancestor"], row["inherited_layers"], row["frozen_layers"], row["training_s"]) == (
        "run-00000",
        2,
        2,
        2.0,
    )
    assert (row["choice:width"], row["metric:depth"]) == (32, 3.0)
    text = io.StringIO()
    write_csv(rows_of_runs([one, other]), text)
    text.seek(0)
    read, had = pd.read_csv(text), frame.astype(object).where(frame.notna(), float("nan"))
    pd.testing.assert_frame_equal(read, had, check_dtype=False)
    assert set(frame["arm"]) == {"with transfer", "no transfer"}
    with pytest.raises(InvalidInput, match="no frame of 'layers'; there are evaluations, units, models, events"):
        nas.frames([one], of="layers")


def test_a_run_that_is_named_twice_counts_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    run = written(tmp_path / "d1")
    (tmp_path / "link").symlink_to(run)
    shutil.copytree(run, tmp_path / "copy")
    again = [run, tmp_path / "d1" / ".." / "d1", tmp_path / "link", tmp_path / "copy"]
    assert rows_of_runs([run, *again]) == rows_of_runs([run])
    said = [message.replace(str(tmp_path), "…") for message in said_by_daskevo(caplog)]
    assert said == [
        "…/d1 is named twice: this run counts once",
        "…/d1/../d1 is the same folder as …/d1: this run counts once",
        "…/link is the same folder as …/d1: this run counts once",
        "…/copy is a copy of the run in …/d1: this run counts once",
    ]
    page = nas.look(run).report(compare=again)
    assert page.name == "report.html"
    assert "Side by side" not in page.read_text("utf-8")
    nas.figures([run, *again], tmp_path / "figures", formats=["svg"])
    assert (tmp_path / "figures" / "captions.md").read_text().splitlines()[0].count("d1") == 1


def test_names_of_arms_are_those_of_the_figures(tmp_path: Path) -> None:
    folders = [
        written(tmp_path / "a"),
        written(tmp_path / "b", policy={"transfer": False}),
        written(tmp_path / "c", seed=8),
    ]
    runs = [read_run(folder) for folder in folders]
    for some in (runs, runs[:2], runs[:1], runs[::2], [replace(run, arm="x" * 99 + run.label) for run in runs]):
        drawn = {run.label: arm.label for arm in arms_of(some) for run in arm.runs}
        assert arm_names(some) == [drawn[run.label] for run in some]
    assert [row["arm"] for row in rows_of_runs(folders)[::5]] == arm_names(runs)
    assert [run.label for run in labelled(runs[:2])] == arm_names(runs[:2]) == ["with transfer", "no transfer"]
    many = [replace(run, identity=run.identity | {"epochs": epochs}) for run in runs for epochs in range(4)]
    assert len(set(arm_names(many))) == 8  # more than figures can show


def several_units(folder: Path) -> None:
    """Write a run of two evaluations, one of which inherits, with their units and an event."""
    record = RunRecord(folder, identity())
    record.asked([request(0), request(1)])
    units = [Unit("match", "match", (0, 1)), Unit("evaluate-1", "evaluate", (1,), estimated_s=3.0)]
    record.planned({}, units)
    record.unit_placed("evaluate-1", "trainer-0")
    record.unit_ended("evaluate-1", "done")
    record.reported(finished(0, 1.0), [], [])
    record.reported(finished(1, 2.0, ancestor=request(0).model_id, prefix=2), [], [])
    record.event("storage", "", stored_bytes=1, full_copy_bytes=2, live_models=1)
    record.close()


def test_units_models_and_events(tmp_path: Path) -> None:
    several_units(tmp_path)
    ancestor = request(0).model_id
    result = nas.look(tmp_path)
    rows = rows_of(result, "units")
    assert [(row["kind"], row["requests"], row["model_id"]) for row in rows] == [
        ("match", 2, None),
        ("evaluate", 1, "run-00001"),
    ]
    assert (rows[1]["worker"], rows[1]["training_s"], rows[1]["estimated_s"]) == ("trainer-0", 2.0, 3.0)
    first, second = rows_of(result, "models")
    assert (first["heirs"], first["founder"], second["depth"], second["lineage"]) == (1, ancestor, 1, [ancestor])
    assert second["state"] is None  # there is no repository to ask
    (event,) = rows_of(result, "events")
    assert (event["kind"], event["fact:stored_bytes"]) == ("storage", 1)
    said = CliRunner().invoke(main, ["frame", str(tmp_path), "--of", "models"]).stdout
    assert [row["lineage"] for row in csv.DictReader(io.StringIO(said))] == ["[]", '["run-00000"]']


def test_a_table_has_no_text_that_steers_a_terminal_or_breaks_it() -> None:
    text = io.StringIO()
    write_csv([{"a\x1b": "\ud800 \x9b\x7f\n\t=1", "b": ["\x1b"]}, {"c": None, "b": 2}], text)
    said = text.getvalue()
    assert said.encode()
    assert list(csv.reader(io.StringIO(said))) == [
        ["a\\x1b", "b", "c"],
        ["\\ud800 \\x9b\\x7f\n\t=1", '["\\u001b"]', ""],
        ["", "2", ""],
    ]


def test_a_table_that_can_not_be_written_whole_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(path: Path, data: bytes) -> None:
        path.open("wb").close()
        raise OSError(28, "No space left on device")

    run = str(written(tmp_path / "mine"))
    monkeypatch.setattr(Path, "write_bytes", broken)
    (tmp_path / "t.csv").write_text("old")
    for command in (["frame", run, "-o"], ["report", run, "-o"]):
        result = CliRunner().invoke(main, [*command, str(tmp_path / "t.csv")])
        assert result.exit_code == 2, result.output
        assert "t.csv can't be written: No space left on device; name another place" in result.stderr
        assert (tmp_path / "t.csv").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "t.csv"]
    with pytest.raises(RunFolderUnusable, match="No space left"):
        nas.figures([run], tmp_path / "figures", formats=["svg"])


def test_without_pandas_a_frame_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return imported(name, *rest)

    result = nas.look(written(tmp_path / "run"))
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InvalidInput, match=r"needs pandas.*daskevo frame RUN"):
        result.frame()
