"""Processes that meet begin at one moment, none before the last is ready."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.store.rendezvous import Meeting

COMER = """
import pickle, sys, time
meeting = pickle.loads(bytes.fromhex(sys.argv[1]))
time.sleep(float(sys.argv[2]))
ready = time.monotonic()
print(ready, meeting.wait())
"""


def test_all_begin_once_the_last_is_ready(tmp_path: Path) -> None:
    with Meeting(tmp_path, lead_s=0.5) as meeting:
        sent = pickle.dumps(meeting).hex()
        comers = [
            subprocess.Popen([sys.executable, "-c", COMER, sent, pause], stdout=subprocess.PIPE, text=True)
            for pause in ("0", "0.4")
        ]
        meeting.await_ready(2)
        meeting.begin()
        named = float((meeting.path / "begin").read_text())
        ready, began = zip(*(map(float, comer.communicate(timeout=180)[0].split()) for comer in comers), strict=True)
        assert all(comer.returncode == 0 for comer in comers)
    assert named - 0.5 >= max(ready)
    assert min(began) >= named
    assert not list(tmp_path.iterdir())


def test_a_copy_leaves_the_folder_where_it_is(tmp_path: Path) -> None:
    with Meeting(tmp_path) as meeting:
        sent = copy.copy(meeting)  # as pickle does it
        assert sent.path == meeting.path
        del sent
        assert meeting.path.is_dir()


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    with Meeting(tmp_path, timeout_s=0.01) as meeting:
        with pytest.raises(TimeoutError, match="2 processes"):
            meeting.await_ready(2)
        with pytest.raises(TimeoutError, match="word to begin"):
            meeting.wait()


def test_nobody_waits_for_who_has_failed(tmp_path: Path) -> None:
    with Meeting(tmp_path, timeout_s=0) as meeting:
        meeting.await_ready(2, lambda: True)
