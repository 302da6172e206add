"""How the core is loaded: late, named when numba is missing, kept between processes, safe when several compile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import with_long

TOY = """
import logging, sys
from pathlib import Path
logging.basicConfig()
from numba import types
from daskevo.index.compiled.compilation import cache_folder, entry

with cache_folder([Path(__file__)]) as keep:
    @entry(types.int64(types.int64), keep=keep)
    def twice(number):
        return 2 * number

stats = twice.stats if hasattr(twice, "stats") else None
print(twice(21), sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def start(code: str | Path, **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(code)] if isinstance(code, Path) else [sys.executable, "-c", code]
    return subprocess.Popen(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=100)
    assert process.returncode == 0, err
    return out.strip(), err


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A program whose code is compiled, and the folder where that is kept."""
    folder = tmp_path_factory.mktemp("compiled")
    toy, cache = folder / "toy.py", folder / "cache"
    toy.write_text(TOY)
    assert end(start(toy, NUMBA_CACHE_DIR=str(cache)))[0] == "42 0 1"
    return toy, cache


@pytest.fixture
def toy(compiled: tuple[Path, Path]) -> Path:
    return compiled[0]


@pytest.fixture
def cache(compiled: tuple[Path, Path], tmp_path: Path) -> Path:
    """A copy of its own, for each test, of what is kept."""
    return Path(shutil.copytree(compiled[1], tmp_path / "cache"))


def test_the_index_needs_no_numba_until_it_is_warmed() -> None:
    code = """
import sys
from daskevo.index import PrefixIndex
from daskevo.types import Tick
index = PrefixIndex()
index.insert("digits", "m", [bytes(16)], 0.5, Tick(1, 1))
index.remove("m")
print("numba" in sys.modules)
"""
    assert end(start(code))[0] == "False"


def test_numba_that_is_missing_is_named() -> None:
    code = """
import sys
sys.modules["numba"] = None
from daskevo.index import PrefixIndex
from daskevo.errors import InvalidInput
try:
    PrefixIndex().best("digits", [])
except InvalidInput as error:
    print(error)
"""
    assert end(start(code))[0].startswith("the prefix index needs numba")


@pytest.mark.long
def test_processes_that_compile_at_once_and_later_ones_that_need_not(tmp_path: Path) -> None:
    toy = tmp_path / "toy.py"
    toy.write_text(TOY)
    folder = str(tmp_path / "cache")
    found = [end(process)[0] for process in [start(toy, NUMBA_CACHE_DIR=folder) for _ in range(2)]]
    assert all(line.startswith("42 ") for line in found)
    assert end(start(toy, NUMBA_CACHE_DIR=folder))[0] == "42 1 0"
    # Another version of the sources, even with the same compiled file's name, is another folder.
    toy.write_text(TOY + "\n")
    assert end(start(toy, NUMBA_CACHE_DIR=folder))[0] == "42 0 1"
    folders = list((tmp_path / "cache" / "daskevo").iterdir())
    assert len(folders) == 2
    assert all(found.stat().st_mode & 0o077 == 0 for found in folders)


def test_without_a_folder_to_write_to_each_process_compiles(tmp_path: Path) -> None:
    toy = tmp_path / "toy.py"
    toy.write_text(TOY)
    in_the_way = tmp_path / "file"
    in_the_way.touch()
    out, err = end(start(toy, NUMBA_CACHE_DIR=str(in_the_way)))
    assert out.startswith("42 ")
    assert "set NUMBA_CACHE_DIR" in err


FULL_DISK = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))  # an empty file can still be made, as on a full disk
"""


def test_a_full_disk_keeps_nothing_and_stops_nothing(tmp_path: Path) -> None:
    toy = tmp_path / "toy.py"
    toy.write_text(FULL_DISK + TOY)
    out, err = end(start(toy, NUMBA_CACHE_DIR=str(tmp_path / "cache")))
    assert out.startswith("42 ")
    assert "set NUMBA_CACHE_DIR" in err


@pytest.mark.parametrize(
    ("ending", "kept"),
    [
        pytest.param("nbi", 0.0, id="empty index"),
        pytest.param("nbc", 0.5, id="half of the code", marks=pytest.mark.long),
    ],
)
def test_what_a_crash_of_the_host_left_is_made_anew(toy: Path, cache: Path, ending: str, kept: float) -> None:
    folder = str(cache)
    (file,) = cache.rglob(f"*.{ending}")
    os.truncate(file, int(file.stat().st_size * kept))
    out, err = end(start(toy, NUMBA_CACHE_DIR=folder))
    assert out.startswith("42 ")
    assert "can't be used" in err
    assert end(start(toy, NUMBA_CACHE_DIR=folder))[0].startswith("42 ")
    assert end(start(toy, NUMBA_CACHE_DIR=folder)) == ("42 1 0", "")


@pytest.mark.parametrize("mode", with_long([0o770, 0o707], 0o707))
def test_a_folder_that_others_can_write_to_is_not_used(toy: Path, cache: Path, mode: int) -> None:
    (mine,) = (cache / "daskevo").iterdir()
    mine.chmod(mode)
    out, err = end(start(toy, NUMBA_CACHE_DIR=str(cache)))
    assert out.split()[1] == "0"
    assert "others can write" in err


def test_the_users_cache_folder_is_used_where_none_is_named(tmp_path: Path) -> None:
    toy = tmp_path / "toy.py"
    toy.write_text(TOY)
    end(start(toy, NUMBA_CACHE_DIR="", XDG_CACHE_HOME=str(tmp_path / "mine")))
    assert len(list((tmp_path / "mine" / "daskevo").glob("core-*/*/*.nbc"))) == 1
