"""`daskevo completion`: shell completion of commands, options, problems and the folders of runs.

A shell runs the program at each press of TAB, so nothing slow is imported here: names are compared, and folders are
listed, not opened.
"""

from __future__ import annotations

from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class

from daskevo_workflows.cli.paths import RUN
from daskevo_workflows.results.run_root import DESCRIPTION

PROBLEMS = ("attn", "covertype", "digits", "fashion-mnist", "flights", "nas-bench-201", "nasnet")
"""Copy of those in :data:`daskevo_workflows.problems.reference.BUILT_IN`; importing it would slow completion down."""

TO_TUNE = ("digits-lr",)
"""Those of the other list there."""

SHELLS = ("bash", "zsh", "fish")

VARIABLE = "_DASKEVO_COMPLETE"
"""Environment variable by which a shell's function asks the program."""


class ProblemName(click.types.StringParamType):
    """A problem: one of ours by name, or a Python file."""

    name = "problem"

    def __init__(self, *names: str) -> None:
        self.names = names

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name) for name in self.names if name.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="file")]


class Folder(click.Path):
    """The folder of a run or of a repository."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name) for name in folders_like(incomplete)]
        return found or [CompletionItem(incomplete, type="dir")]


PROBLEM = ProblemName(*PROBLEMS)
TUNED = ProblemName(*TO_TUNE, *PROBLEMS)
FOLDER = Folder()


def folders_like(beginning: str) -> list[str]:
    """Return the folders of runs and repositories whose path begins so: where it ends, and one level below.

    Examples
    --------
    >>> folders_like("no/such/folder")
    []
    """
    above, _, name = beginning.rpartition("/")
    place = Path(f"{above}/" if beginning.startswith("/") else above or ".")
    try:
        near = sorted(path for path in place.iterdir() if path.name.startswith(name) and _is_shown(path, name))
        below = [each for path in near if not _is_one(path) for each in sorted(path.iterdir()) if _is_shown(each, "")]
    # A folder that can't be read has nothing to offer, and an error would spoil the line that is typed.
    except OSError:
        return []
    start = beginning[: len(beginning) - len(name)]
    # As it was typed, ./ included: a shell takes only words that begin like the one it completes.
    return [f"{start}{path.relative_to(place)}" for path in (*near, *below) if _is_one(path)]


def _is_shown(path: Path, name: str) -> bool:
    if not path.name.isprintable():  # nor is a name whose bytes are no text, which would be refused
        return False
    return path.is_dir() and (name.startswith(".") or not path.name.startswith("."))


def _is_one(path: Path) -> bool:
    return (path / RUN).is_file() or (path / DESCRIPTION).is_file()


@click.command(short_help="Have a shell complete commands, options, problems and run folders.")
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print what makes SHELL complete the words after daskevo when TAB is pressed.

    Commands, options and their words are completed, names of problems, and the folders of runs.

    \b
    For this shell, and at the end of the file that it reads at its start for all:
        eval "$(daskevo completion bash)"        ~/.bashrc
        eval "$(daskevo completion zsh)"         ~/.zshrc, after compinit
        daskevo completion fish | source         ~/.config/fish/config.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, "daskevo", VARIABLE).source())
