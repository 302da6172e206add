"""What a shell completes when TAB is pressed: in a real bash, whose line editor has a terminal of its own."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from daskevo_workflows.cli import main
from daskevo_workflows.cli.completion import PROBLEMS, SHELLS, TO_TUNE, VARIABLE, folders_like
from daskevo_workflows.problems import reference

BASH = shutil.which("bash")
COMMAND = Path(sys.executable).with_name("daskevo")


def complete(*words: str) -> list[tuple[str, str]]:
    """Return type and value of what completes the last word."""
    return [
        (item.type, item.value)
        for item in ShellComplete(main, {}, "daskevo", VARIABLE).get_completions(list(words[:-1]), words[-1])
    ]


def values(*words: str) -> list[str]:
    found = complete(*words)
    assert {kind for kind, _ in found} <= {"plain"}
    return [value for _, value in found]


def test_the_names_are_those_of_the_problems() -> None:
    assert list(PROBLEMS) == sorted(reference.BUILT_IN)
    assert list(TO_TUNE) == sorted(reference.TO_TUNE)


def test_words() -> None:
    assert values("na") == ["nas"]
    assert values("models", "l") == ["lineage", "ls"]
    assert values("nas", "f") == ["fashion-mnist", "flights"]
    assert values("check", "f") == ["fashion-mnist", "flights"]
    assert complete("check", "my_pro") == [("file", "my_pro")]
    assert values("tune", "digits-") == ["digits-lr"]
    assert values("nas", "digits", "--max-p") == ["--max-parameters"]
    assert values("nas", "digits", "--strategy", "ra") == ["random"]
    assert complete("nas", "my_pro") == [("file", "my_pro")]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for run in ("runs/one", "runs/two", "runs/.hidden", "single"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "run.json").touch()
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "repository.json").touch()
    (tmp_path / "runs" / "no run").mkdir()
    (tmp_path / "runs" / "file").touch()
    (tmp_path / "runs" / os.fsdecode(b"bytes\xff")).mkdir()  # no text: it would be refused
    (tmp_path / "runs" / os.fsdecode(b"bytes\xff") / "run.json").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_folders(runs: Path) -> None:
    everything = ["shared", "single", "runs/one", "runs/two"]
    assert folders_like("") == everything
    assert folders_like("runs/") == ["runs/one", "runs/two"]
    assert folders_like("./ru") == ["./runs/one", "./runs/two"]
    assert folders_like("runs/t") == ["runs/two"]
    assert folders_like(f"{runs}/si") == [f"{runs}/single"]
    assert folders_like("runs/.h") == ["runs/.hidden"]
    assert folders_like("runs/one/") == []
    assert folders_like("/") is not None
    for words in (("models", "ls"), ("verify",), ("report",), ("report", "single"), ("nas", "digits", "--run")):
        assert values(*words, "") == everything, words
    assert values("tune", "digits", "--repository", "sh") == ["shared"]
    assert complete("verify", "elsewhere/") == [("dir", "elsewhere/")]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_words_for_each_shell(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert f"{VARIABLE}={shell}_complete" in done.stdout
    assert "daskevo" in done.stdout


def test_a_folder_and_a_problem_are_taken_as_typed() -> None:
    """Completing a word does not change what the command gets."""
    seen: list[object] = []
    command = click.Command("see", params=main.commands["verify"].params[:1], callback=lambda root: seen.append(root))
    assert CliRunner().invoke(command, ["no such folder"]).exit_code == 0
    assert seen == [Path("no such folder")]


@pytest.mark.skipif(BASH is None or not COMMAND.exists(), reason="needs bash, and daskevo installed")
def test_tab_in_a_real_bash(runs: Path) -> None:
    """Each TAB is answered before the next key is read: the line editor waits for the program."""
    keys = (
        'bind "set enable-bracketed-paste off"; eval "$(daskevo completion bash)"\n'
        # What completes is the program; what the line then calls is this.
        'daskevo() { printf "<%s>" "$@"; echo "<end>"; exit; }\n'
        "daskevo tu\tdigits-l\t--strat\tas\t--run runs/o\t--evaluations 3\n"
    )
    terminal, inside = pty.openpty()
    environment = {
        **os.environ,
        "PATH": f"{COMMAND.parent}:{os.environ['PATH']}",
        "TERM": "dumb",
        "PS1": "",
        "COLUMNS": "400",
    }
    assert BASH is not None
    process = subprocess.Popen(
        [BASH, "--norc", "--noprofile", "-i"],
        stdin=inside,
        stdout=inside,
        stderr=inside,
        env=environment,
        start_new_session=True,
    )
    os.close(inside)
    os.write(terminal, keys.encode())
    shown = b""
    try:
        while part := os.read(terminal, 4096):
            shown += part
    except OSError:  # the terminal's other end is closed: bash has ended
        pass
    finally:
        os.close(terminal)
    assert process.wait() == 0
    wanted = "<tune><digits-lr><--strategy><asha><--run><runs/one><--evaluations><3><end>"
    assert wanted in shown.decode(errors="replace"), shown.decode(errors="replace")
