"""What is stored is no code, belongs to whoever the user's mask says, and lies inside its folder."""

from __future__ import annotations

import ast
import os
import pickle
import pickletools
import random
import stat
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path

import pytest

from daskevo.runs.record import RunRecord
from daskevo.store import journal, segment
from daskevo.store.files import RESERVE

ROOT = Path(__file__).parents[1]
LOADERS = {"pickle", "cloudpickle", "marshal", "shelve", "dill", "joblib"}
"""Modules whose files run code when they are loaded."""
STORE = """
import os, sys
os.umask(int(sys.argv[2], 8))
import daskevo
from tests.cluster.helpers import chain
from tests.cluster.test_processes import put_plain
if __name__ == "__main__":
    with daskevo.local_cluster(trainers=1, dashboard_address=None) as cluster, cluster.get_client() as client:
        client.wait_for_workers(2, timeout=180)
        repository = daskevo.open(sys.argv[1], "test", client=client, objective="max score", shards=2)
        for name in ("first", "second"):
            client.submit(
                put_plain, repository, chain(8, 6, len(name)), name, resources={"evaluation": 1}, pure=False
            ).result(60)
        repository.retire("first")
    assert daskevo.open(sys.argv[1], "test").verify(repair=True).clean
"""


def sources() -> list[Path]:
    folders = (ROOT / "daskevo", ROOT / "plugins" / "daskevo_plugins", ROOT / "workflows" / "daskevo_workflows")
    return [path for folder in folders for path in folder.rglob("*.py")]


def imports(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def test_nothing_of_ours_loads_what_runs_code() -> None:
    assert len(sources()) > 200
    for path in sources():
        tree = ast.parse(path.read_text())
        assert not imports(tree) & LOADERS, path
        for node in ast.walk(tree):
            # numpy's loader unpickles only where it is told to.
            assert not (isinstance(node, ast.keyword) and node.arg == "allow_pickle"), path


def is_pickle(data: bytes) -> bool:
    """Tell whether data is a pickle or begins with one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of escapes in what is no text
            *_, (_, _, stop) = pickletools.genops(data)
    except ValueError:
        return False
    return stop == len(data) - 1 or data[:1] == pickle.PROTO


@pytest.mark.processes
@pytest.mark.parametrize("mask", ["077", pytest.param("027", marks=pytest.mark.long)])
def test_the_user_s_mask_counts_for_every_file_and_none_is_code(mask: str, tmp_path: Path) -> None:
    # Opened for all, so that only the mask keeps others out.
    tmp_path.chmod(0o777)
    done = subprocess.run(
        [sys.executable, "-c", STORE, tmp_path / "root", mask],
        cwd=ROOT,
        env={**os.environ, "DASK_TEMPORARY_DIRECTORY": str(tmp_path / "scratch")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    made = [tmp_path / "root", *(tmp_path / "root").rglob("*")]
    assert {path.name.split(".")[0] for path in made} >= {
        "repository",
        "shards",
        "journal",
        "epoch",
        "second",
        "reserve",
    }
    for path in made:
        status = path.lstat()
        assert not stat.S_ISLNK(status.st_mode), path
        whole = 0o666 if path.is_file() else 0o777
        assert stat.S_IMODE(status.st_mode) == whole & ~int(mask, 8), (path, oct(status.st_mode))
        # A reserve holds random bytes, which nobody reads, and which may look like anything.
        if path.is_file() and path.name != RESERVE:
            data = path.read_bytes()
            assert not is_pickle(data), path
            assert not zipfile.is_zipfile(path), path
    # Beside the root and the workers' scratch nothing was written.
    assert {path.name for path in tmp_path.iterdir()} <= {"root", "scratch"}


def test_a_run_s_folder_is_as_the_mask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with RunRecord(tmp_path / "run", {"problem": "tiny"}, {}):
            pass
    finally:
        os.umask(before)
    for path in (tmp_path / "run").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o640, path


def test_a_pickle_would_be_found() -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert is_pickle(pickle.dumps({"a": [1, 2]}, protocol))
    assert is_pickle(pickle.dumps(1) * 2)
    assert not is_pickle(b'{"a":[1,2]}')
    assert not is_pickle(b".random")


def test_what_is_looked_at_tells_by_its_first_bytes_that_it_is_no_pickle() -> None:
    """Whatever tensors follow: the outcome hangs on no random byte."""
    rng = random.Random(0)
    for magic in (segment.MAGIC, journal.MAGIC):
        for _ in range(100):
            # Text of protocol 0 whose escapes Python warns of, too.
            assert not is_pickle(magic + b"V\\d\n." + rng.randbytes(64))
    assert not is_pickle(b"V\\d\n.more")
