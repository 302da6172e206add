"""A place apart, and what is said where there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.apart import apart
from tests.rights import not_allowed

FILL = """
import sys
from pathlib import Path
from tests.chaos.disk import Disk
disk = Disk(Path(sys.argv[1]), 1 << 20)
disk.fill()
try:
    (disk.folder / "other").write_bytes(bytes(1 << 16))
except OSError as error:
    print(error.errno)
disk.empty()
print((disk.folder / "other").write_bytes(bytes(1 << 16)))
"""

ORPHANS = """
import subprocess, sys, time
from pathlib import Path
from tests.chaos.apart import beside_a_reaper

def work():
    for _ in range(5):
        subprocess.run(["sh", "-c", "sleep 0.01 & exit"], check=True)
    until = time.monotonic() + 60
    while len([1 for place in Path("/proc").glob("[0-9]*")]) > 2 and time.monotonic() < until:
        time.sleep(0.02)
    print(len([1 for place in Path("/proc").glob("[0-9]*")]))
    sys.exit(7)

beside_a_reaper(work)
"""


@pytest.fixture
def fresh() -> Any:
    apart.cache_clear()
    yield
    apart.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    prefix, why = apart()
    assert prefix == ()
    assert why == "not installed: unshare, nsenter, ip, mount"
    for name in ("unshare", "nsenter", "ip", "mount"):
        (tmp_path / name).write_text("#!/bin/sh\necho not you >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    apart.cache_clear()
    assert apart() == ((), "not allowed here: not you")


@pytest.mark.usefixtures("fresh")
def test_a_disk_apart_is_filled_and_is_gone_with_it(tmp_path: Path) -> None:
    prefix, why = apart()
    if not prefix:
        not_allowed(why)
    done = subprocess.run(
        [*prefix, sys.executable, "-c", FILL, str(tmp_path / "disk")], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["28", str(1 << 16)], done.stderr
    assert list((tmp_path / "disk").iterdir()) == []


@pytest.mark.usefixtures("fresh")
def test_nobody_stays_who_has_ended(tmp_path: Path) -> None:
    prefix, why = apart()
    if not prefix:
        not_allowed(why)
    done = subprocess.run([*prefix, sys.executable, "-c", ORPHANS], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.returncode) == (["2"], 7), done.stderr
