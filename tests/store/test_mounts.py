"""File systems: told apart by where a path really lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from daskevo.store import mounts

TABLE = """22 1 8:1 / / rw - ext4 /dev/sda rw
30 22 0:26 / /dev/shm rw shared:3 - tmpfs tmpfs rw
31 22 0:40 / /scratch rw - lustre mds@tcp:/scratch rw
32 31 8:2 / /scratch/local\\040disk rw - xfs /dev/sdb rw
33 22 0:41 / /scratch2 rw - nfs4 server:/ rw
34 33 0:42 / /scratch2 rw - tmpfs tmpfs rw
35 22 0:43 / /données rw - nfs4 server:/ rw
"""


@pytest.mark.parametrize(
    ("path", "kind", "mapped"),
    [
        ("/home/me", "ext4", True),
        ("/dev/shm/evo", "tmpfs", True),
        ("/scratch/evo/shards", "lustre", False),
        ("/scratch/local disk/evo", "xfs", True),
        ("/scratch2/evo", "tmpfs", True),
        ("/scratch3", "ext4", True),
        ("/données/evo", "nfs4", False),
    ],
)
def test_the_innermost_mount_counts(path: str, kind: str, mapped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda self: TABLE)
    mounts.file_system.cache_clear()
    try:
        assert mounts.file_system(Path(path)) == kind
        assert mounts.may_be_mapped(Path(path)) == mapped
    finally:
        mounts.file_system.cache_clear()


def test_a_system_without_a_table_promises_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(self: Path) -> str:
        raise FileNotFoundError(self)

    monkeypatch.setattr(Path, "read_text", absent)
    mounts.file_system.cache_clear()
    try:
        assert not mounts.may_be_mapped(tmp_path)
    finally:
        mounts.file_system.cache_clear()
