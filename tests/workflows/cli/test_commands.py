"""The commands: how they start, and what they answer to bad input."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import daskevo.errors
from daskevo.errors import DaskevoError, InvalidInput, RootUnusable
from daskevo.runs import RunRecord
from daskevo.search import AgedEvolution, Random, Report, TransferReport
from daskevo.store.root import Root
from daskevo_workflows.cli import main
from daskevo_workflows.cli.group import Commands
from daskevo_workflows.cli.invocation import same_command
from daskevo_workflows.cli.paths import default_run_folder, repository_root, root_for_run
from daskevo_workflows.cli.run_messages import say_all_at_random, say_first_is_slow, say_unanswered
from daskevo_workflows.evaluation.transfer import Transfer
from daskevo_workflows.problems.reference import BUILT_IN

ERRORS = [
    kind
    for _, kind in inspect.getmembers(daskevo.errors, inspect.isclass)
    if issubclass(kind, DaskevoError) and kind.__module__ == "daskevo.errors"
]


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_ends_with_code_2_and_its_message_on_stderr(kind: type[DaskevoError]) -> None:
    @click.group(cls=Commands)
    def group() -> None: ...

    @group.group()
    def inner() -> None: ...

    @inner.command()
    def fail() -> None:
        raise kind("asked for this, found that, do so", path="/x")

    result = CliRunner().invoke(group, ["inner", "fail"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == f"Error: {kind.__name__}: asked for this, found that, do so\n"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeError("a bug"), 70, "RuntimeError: a bug\ndaskevo did not foresee this error"),
        (FileNotFoundError(2, "no such file"), 70, "FileNotFoundError"),
        (KeyboardInterrupt(), 130, "Interrupted."),
        (OSError(28, "No space left on device"), 2, "Error: No space left on device: not all could"),
        (click.Abort(), 1, "Aborted!"),
        (click.UsageError("not so"), 2, "not so"),
        (BrokenPipeError(32, "nobody reads"), 1, ""),
        (SystemExit(5), 5, ""),
    ],
)
def test_what_nobody_meant_keeps_its_traceback_and_has_a_code_of_its_own(
    error: BaseException, code: int, said: str
) -> None:
    @click.group(cls=Commands)
    def group() -> None: ...

    @group.group()
    def inner() -> None: ...

    @inner.command()
    def fail() -> None:
        raise error

    result = CliRunner().invoke(group, ["inner", "fail"])
    assert (result.exit_code, result.stdout) == (code, "")
    assert said in result.stderr
    assert ("Traceback (most recent call last)" in result.stderr) == (code == 70)


@pytest.mark.parametrize("words", [["--help"], ["models", "--help"]], ids=len)
def test_what_does_not_fit_on_stdout_is_said(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        code = "from daskevo_workflows.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=180
        )
    assert done.returncode == 2
    assert done.stderr.startswith("Error: No space left on device: not all could be written to stdout")
    assert done.stderr.count("\n") == 1


def test_help_says_the_exit_codes() -> None:
    for words in (["--help"], ["nas", "--help"]):
        told = " ".join(CliRunner().invoke(main, words).stdout.split())
        assert "70 an unexpected error" in told.lower()


def test_a_message_cannot_steer_the_terminal() -> None:
    @click.group(cls=Commands)
    def group() -> None: ...

    @group.command()
    def fail() -> None:
        raise DaskevoError("model '\x1b[2J'")

    assert CliRunner().invoke(group, ["fail"]).stderr == "Error: DaskevoError: model '\\x1b[2J'\n"


def test_help_loads_nothing_heavy() -> None:
    heavy = ("dask", "distributed", "keras", "tensorflow", "matplotlib", "numpy", "jinja2", "sqlite3")
    code = (
        "import sys\nfrom daskevo_workflows.cli import main\n"
        "try:\n    main(['nas', '--help'])\nexcept SystemExit:\n    pass\n"
        f"print(sorted(set({heavy!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=180)
    assert done.stdout.splitlines()[-1] == "[]"


def test_it_is_a_command_of_dask_too() -> None:
    code = "from dask.__main__ import main; main()"
    for command, word in ((["evo", "--help"], "verify"), (["evo", "nas", "--help"], "--no-transfer")):
        done = subprocess.run(
            [sys.executable, "-c", code, *command], capture_output=True, text=True, check=True, timeout=180
        )
        assert word in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        ["nas", "--evaluations", "0", "digits"],
        ["nas", "--freeze", "half", "digits"],
        ["nas", "--time-limit", "-1", "digits"],
        ["nas", "--max-parameters", "many", "digits"],
        ["nas"],
        ["models", "show", "root"],
        ["nonsense"],
    ],
)
def test_a_wrong_call_ends_with_code_2(command: list[str]) -> None:
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr


def test_report_without_a_run_is_said(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["report", str(tmp_path)])
    assert result.exit_code == 2
    assert "RunFolderUnusable" in result.stderr
    assert "holds no run: it is empty" in result.stderr


def test_a_repository_is_found_in_a_runs_folder(tmp_path: Path) -> None:
    inside = tmp_path / "repository"
    inside.mkdir()
    (inside / "repository.json").touch()
    assert repository_root(tmp_path) == inside
    assert repository_root(inside) == inside
    (tmp_path / "repository.json").touch()
    assert repository_root(tmp_path) == tmp_path


def test_an_evolution_that_ends_before_its_population_is_full_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    for strategy in (AgedEvolution(population=6, sample=3), Random()):
        say_all_at_random(strategy, 20)
    assert capsys.readouterr().err == ""
    say_all_at_random(AgedEvolution(), 20)
    assert "A population of 50 is filled at random first: all of 20 evaluations" in capsys.readouterr().err


def test_a_place_that_cannot_be_looked_into_is_said(tmp_path: Path) -> None:
    with pytest.raises(RootUnusable, match="can't be looked into: File name too long"):
        repository_root(tmp_path / ("x" * 300))


def test_a_folder_without_a_repository_is_said_with_what_it_is(tmp_path: Path) -> None:
    def said(place: Path) -> str:
        result = CliRunner().invoke(main, ["models", "ls", str(place)])
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: RootUnusable: ")
        return result.stderr

    assert "it is empty" in said(tmp_path)
    assert "there is no folder" in said(tmp_path / "nowhere")
    (tmp_path / "thesis.tex").touch()
    assert "is a file" in said(tmp_path / "thesis.tex")
    assert "no repository.json, no run.json and no repository in it" in said(tmp_path)
    for name in ("b", "a"):
        run_with_root(tmp_path / name, tmp_path / name / "repository")
    assert f"a folder of 2: {tmp_path / 'a'}, {tmp_path / 'b'}: name" in said(tmp_path)
    shutil.rmtree(tmp_path / "a" / "repository")
    assert f"belongs to the repository {tmp_path / 'a' / 'repository'}, which is not there" in said(tmp_path / "a")


def test_commands_are_named_as_they_were_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By `dask evo` and by start.py too, in usage lines and in what to type next."""
    told = []

    @click.group("evo", cls=Commands)
    def group() -> None: ...

    @group.command()
    @click.argument("words", nargs=-1, type=click.UNPROCESSED)
    def nas(words: tuple[str, ...]) -> None:
        told.append(same_command(Path("runs/a b")))

    dask = click.Group("dask", {"evo": group})
    group.main(["nas", "x y"], "daskevo", standalone_mode=False)
    group.main(["nas", "--", "--run=z"], "daskevo", standalone_mode=False)
    dask.main(["evo", "nas", "x"], "dask", standalone_mode=False)
    monkeypatch.setenv("DASKEVO_PROGRAM", "python3 start.py")
    group.main(["nas", "x"], standalone_mode=False)
    assert "Usage: python3 start.py nas" in CliRunner().invoke(group, ["nas", "--bad"], prog_name=None).stderr
    monkeypatch.setenv("DASKEVO_AGAIN", "python3 start.py")
    group.main(["nas", "x"], standalone_mode=False)
    assert told == [
        "daskevo nas 'x y' --run 'runs/a b'",
        "daskevo nas -- --run=z",
        "dask evo nas x --run 'runs/a b'",
        "python3 start.py nas x --run 'runs/a b'",
        "python3 start.py",
    ]


def run_with_root(folder: Path, root: Path) -> None:
    about = {"repository": str(root), "repository_id": Root.create(root, shards=2).repository_id}
    RunRecord(folder, {}, about).close()


def test_the_repository_of_a_run_is_found_where_it_is(tmp_path: Path) -> None:
    run, root = tmp_path / "run", tmp_path / "shared"
    run_with_root(run, root)
    assert repository_root(run) == root_for_run(run, None) == root
    assert root_for_run(run, root) == root
    # Something else in the run's folder is not taken for it, a copy that came along is.
    Root.create(run / "repository", shards=2)
    assert repository_root(run) == root_for_run(run, None) == root
    shutil.rmtree(run / "repository")
    shutil.move(root, run / "repository")
    assert repository_root(run) == root_for_run(run, None) == run / "repository"
    moved = tmp_path / "moved"
    shutil.move(run / "repository", moved)
    assert root_for_run(run, moved) == moved
    assert root_for_run(tmp_path / "new", None) == tmp_path / "new" / "repository"
    assert root_for_run(tmp_path / "new", root) == root


def test_another_repository_for_a_run_is_refused_before_anything_starts(tmp_path: Path) -> None:
    run, root, other = tmp_path / "run", tmp_path / "shared", tmp_path / "other"
    run_with_root(run, root)
    Root.create(other, shards=2)
    for named in (other, tmp_path / "nowhere"):
        result = CliRunner().invoke(main, ["nas", "digits", "--run", str(run), "--repository", str(named)])
        assert result.exit_code == 2
        assert result.stderr.startswith("Error: RunMismatch: ")
        assert str(root) in result.stderr
        assert str(named) in result.stderr
    shutil.rmtree(root)
    result = CliRunner().invoke(main, ["nas", "digits", "--run", str(run)])
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: RootUnusable: ")
    assert "--repository" in result.stderr
    assert not root.exists()
    assert not (tmp_path / "nowhere").exists()


def test_arms_of_a_comparison_do_not_share_a_folder() -> None:
    folders = {
        default_run_folder(problem, seed, transfer)
        for problem in ("digits", "my/digits2.py")
        for seed in (0, 1)
        for transfer in (Transfer(), Transfer(freeze="none"), Transfer("none"), Transfer(freeze="steps:9", stretch=1.0))
    }
    assert len(folders) == 16
    assert all(":" not in folder.name for folder in folders)
    assert all(os.sep not in folder.name for folder in folders)
    told = " ".join(CliRunner().invoke(main, ["nas", "--help"]).stdout.split()).replace("- ", "-")
    for transfer, suffix in ((Transfer("none"), "-no-transfer"), (Transfer(freeze="prefix"), "-freeze-prefix")):
        assert default_run_folder("digits", 0, transfer).name == f"digits-seed0{suffix}"
        assert f"{suffix}, " in told


ODD = os.fsdecode(b"r\xffn")
"""A name of bytes that are no UTF-8 text, as the shell passes it."""


def _commands(group: click.Group, *above: str) -> list[tuple[str, ...]]:
    found = []
    for name, command in group.commands.items():
        found += _commands(command, *above, name) if isinstance(command, click.Group) else [(*above, name)]
    return found


@pytest.mark.parametrize("command", _commands(main), ids=" ".join)
def test_a_path_that_is_no_text_is_refused(command: tuple[str, ...]) -> None:
    """By every command, before anything is made: no record could keep it."""
    result = CliRunner().invoke(main, [*command, ODD])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: InvalidInput: the path 'r\\udcffn' holds bytes that are no UTF-8 text")
    assert "rename" in result.stderr
    assert CliRunner().invoke(main, [*command, "--run=" + ODD]).exit_code == 2


def test_nor_is_a_current_folder_that_is_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ODD).mkdir()
    monkeypatch.chdir(tmp_path / ODD)
    result = CliRunner().invoke(main, ["status", "run"])
    assert result.exit_code == 2
    assert "no UTF-8 text" in result.stderr
    assert CliRunner().invoke(main, ["status", "--help"]).exit_code == 0


def test_nor_is_one_from_python(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"the run's folder .* no UTF-8 text"):
        RunRecord(tmp_path / ODD, {}, {})
    with pytest.raises(InvalidInput, match=r"the root .* no UTF-8 text"):
        daskevo.open(tmp_path / ODD)
    assert not (tmp_path / ODD).exists()


def report_of(number: int, **transfer: Any) -> Report:
    return Report(number, f"m{number}", "finished", transfer=TransferReport(words="why", **transfer))  # type: ignore[arg-type]


def test_queries_without_an_answer_are_counted_at_the_end() -> None:
    """In the last words of a search, with what to do; without any nothing is said."""
    answered = [report_of(0, reason="no match"), report_of(1, reason="other settings"), Report(2, "m2", "finished")]  # type: ignore[arg-type]
    assert say_unanswered(answered) is None
    said = say_unanswered(
        [*answered, report_of(3, reason="no answer"), report_of(4, reason="other settings", silent=2)]
    )
    assert said is not None
    assert said.startswith("2 of 4 evaluations")
    assert "fewer trainers" in said


def test_who_asks_an_empty_repository_misses_nothing_without_an_answer() -> None:
    spans = [(0.0, 9.0), (1.0, 8.0), (8.5, 12.0)]
    reports = [
        replace(report_of(number, reason="no answer"), started=started, ended=ended)
        for number, (started, ended) in enumerate(spans)
    ]
    assert say_unanswered(reports[:2], was_empty=True) is None
    said = say_unanswered(reports, was_empty=True)
    assert said is not None
    assert said.startswith("1 of 3 evaluations")
    assert (say_unanswered(reports) or "").startswith("3 of 3")  # one that others share may have had models


def test_that_the_first_evaluations_are_slow_is_said_where_trainers_are_new(capsys: pytest.CaptureFixture[str]) -> None:
    say_first_is_slow("tcp://somebody:1", "evaluation")
    assert capsys.readouterr().err == ""
    say_first_is_slow(None, "evaluation")
    assert "imports Keras and prepares the data before its first evaluation" in capsys.readouterr().err


def test_help_names_the_problems_that_come_with_daskevo() -> None:
    told = CliRunner().invoke(main, ["nas", "--help"]).stdout
    assert all(f"  {name} " in told for name in BUILT_IN)
