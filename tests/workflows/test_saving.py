"""A model is written in one step: whenever the writer is killed, a whole file is there, the old one or the new one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from daskevo_workflows.results.atomic_files import in_place_of, save_model


def test_names_that_are_too_long_are_told_before_anything_is_moved(tmp_path: Path) -> None:
    path, card = tmp_path / f"{'x' * 244}.keras", tmp_path / f"{'x' * 244}.keras.card.md"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="too long"), in_place_of(path, card):
        pytest.fail("nothing is written")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


KILLED = """
import os, signal, sys
from pathlib import Path
from daskevo_workflows.results.atomic_files import save_model

class Model:
    # Writes in place, piece by piece, as Keras does.
    def save(self, path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for _ in range(20):
            os.write(handle, b"new" * 1000)
        os.close(handle)

def counted(real):
    def call(*arguments, **options):
        global calls
        calls -= 1
        if calls < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    return call

folder, seen = Path(sys.argv[1]), []
for limit in range(40):
    calls = limit
    path = folder / f"{limit}.keras"
    path.write_bytes(b"old")
    child = os.fork()
    if child == 0:
        for name in ("open", "write", "close", "fsync", "replace", "unlink"):
            setattr(os, name, counted(getattr(os, name)))
        save_model(Model(), path)
        os._exit(0)
    killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    found = path.read_bytes()
    assert found in (b"old", b"new" * 20000), limit
    seen.append((killed, found == b"old"))
print(*sorted(set(seen)), sum(killed for killed, _ in seen))
"""


def test_a_writer_that_is_killed_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    told = subprocess.run([sys.executable, "-c", KILLED, tmp_path], capture_output=True, text=True, timeout=100)
    assert (told.returncode, told.stderr) == (0, "")
    *seen, killed = told.stdout.replace(") (", ")|(").replace(") ", ")|").strip().split("|")
    assert seen == ["(False, False)", "(True, False)", "(True, True)"]
    assert int(killed) >= 20


def test_what_cannot_be_written_leaves_what_was_there(tmp_path: Path) -> None:
    class Broken:
        def save(self, path: Path) -> None:
            path.write_bytes(b"half")
            raise OSError(28, "No space left on device")

    path = tmp_path / "m.keras"
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="No space left"):
        save_model(Broken(), path)
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("m.keras", b"old")]
