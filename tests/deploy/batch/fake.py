"""A batch system of shell scripts that answers as it is told to: real ones do some of it only after hours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


class FakeSlurm:
    """`sbatch`, `scontrol` and `scancel` that start nothing; the only programs in the PATH beside the system's own.

    Parameters
    ----------
    folder:
        For the programs and what they write.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir()
        # Without programs of a real batch system that this machine may have.
        monkeypatch.setenv("PATH", f"{folder}:{self._tools(folder / 'tools')}")
        self.write(
            "sbatch",
            f"number=1; while ! mkdir {folder}/job-$number 2>/dev/null; do number=$((number + 1)); done\n"
            f'cp "$1" {folder}/job-$number/script; echo "Submitted batch job $number"',
        )
        self.write("scancel", f'echo "$@" >>{folder}/cancelled')
        self.say("JobState=PENDING Reason=Resources")

    def _tools(self, folder: Path) -> Path:
        folder.mkdir()
        for name in ("cp", "echo", "mkdir", "sh", "sleep"):
            (folder / name).symlink_to(
                next(path for path in (Path("/bin") / name, Path("/usr/bin") / name) if path.exists())
            )
        return folder

    def write(self, name: str, text: str) -> None:
        """Have a program do this from now on, also while it is being called.

        The program itself is a link to a script that is never written: a file can't be run (ETXTBSY) as long as it is
        open for writing, be it in a child that another thread has forked and that has not begun its own program yet.
        """
        words, program = self.words(name), self.folder / name
        words.with_suffix(".new").write_text(f"{text}\n")
        words.with_suffix(".new").replace(words)
        if not program.exists():
            program.symlink_to(Path(__file__).with_name("fake_program.sh"))

    def words(self, name: str) -> Path:
        """Return the file with what a program does."""
        return self.folder / f"{name}.sh"

    def say(self, words: str) -> None:
        """Have `scontrol` say this of every job."""
        self.write("scontrol", f'echo "JobId=$4 {words}"')

    def cancelled(self) -> list[str]:
        """Return the numbers of the jobs that were cancelled."""
        path = self.folder / "cancelled"
        return path.read_text().split() if path.exists() else []

    def remove(self, name: str) -> None:
        """Take a program away."""
        os.unlink(self.folder / name)
