"""SIGKILL anywhere: whatever a store answered is there when the shard is opened again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from daskevo.store.journal import journal_numbers
from daskevo.store.root import Root
from daskevo.types import ModelId, Tick

PREAMBLE = """
import os, signal, sys
import numpy as np
from daskevo.store.root import Root
from daskevo.types import ModelId, Tick

def tensors(k):
    return {0: np.full((k % 3 + 1) * 20_000, k, np.int32), 1: np.float32(k)}
"""

# Opens shard 0 and stores models for ever; prints each that was answered.
WRITER = (
    PREAMBLE
    + """
root = Root.open(sys.argv[1])
folder = root.shard(0)
records = list(folder.open(1).records)
print("read", len(records), flush=True)
folder.serve(records)
k = len(records)
while True:
    folder.write_segment(ModelId(f"m{k}"), Tick(1, k), tensors(k))
    folder.append([{"stored": k}])
    print("stored", k, flush=True)
    k += 1
"""
)

# In a fork of its own for every n: dies at its n-th call of the system, a write half done.
DIES_AT = (
    PREAMBLE
    + """
import json
from daskevo.store.lease import Holder, take_lease
from daskevo.store.segment_tier import SegmentTier

def die_at(n):
    left = [n]
    def wrap(name):
        call = getattr(os, name)
        def counted(*args, **kwargs):
            left[0] -= 1
            if left[0] == 0:
                if name == "write":
                    call(args[0], memoryview(args[1])[: len(args[1]) // 2])
                elif name == "pwritev":
                    call(args[0], args[1][: len(args[1]) // 2 + 1], args[2])
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args, **kwargs)
        setattr(os, name, counted)
    for name in ("open", "write", "pwritev", "replace", "link", "unlink", "mkdir", "fsync", "ftruncate"):
        wrap(name)

def work(path, durability, answer):
    root = Root.create(path, shards=2, durability=durability)
    answer("created")
    lease = take_lease(root, Holder("s", "a", "j"), lambda holder: None)
    answer("leased")
    for generation in (lease.generation, lease.generation):
        folder = root.shard(0)
        records = list(folder.open(generation).records)
        folder.serve(records)
        answer("served")
        for k in range(len(records), len(records) + 2):
            folder.write_segment(ModelId(f"m{k}"), Tick(1, k), tensors(k))
            folder.append([{"stored": k}])
            answer(k)
        folder.append([{"stored": k + 1}, {"stored": k + 2}])
        answer(k + 2)
        folder.renew([{"stored": n} for n in range(k + 3)])
        tier = SegmentTier(folder.segment_path, sync=durability == "synced")
        tier.adopt(ModelId("m1"), Tick(1, 1), [0])
        tier.rewrite(ModelId("m1"), Tick(1, 1), lambda: folder.append(()))
        folder.delete([(ModelId("m0"), Tick(1, 0))])

base, durability = sys.argv[1:]
write, results, n = os.write, [], 0
while True:
    n += 1
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        die_at(n)
        work(f"{base}/{n}", durability, lambda word: write(writer, f"{word}\\n".encode()))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        answers = file.read().split()
    _, status = os.waitpid(child, 0)
    if status == 0:
        break
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
    results.append(answers)
print(json.dumps(results))
"""
)


def _check(root: Root, answered: int) -> int:
    """Open shard 0, compare with the count of answered models, return how many there are."""
    folder = root.shard(0)
    records = folder.open(1).records
    assert list(records) == [{"stored": k} for k in range(len(records))]
    # The last one may have been written and not answered.
    assert answered <= len(records)
    folder.serve(records)
    assert journal_numbers(folder.path) == [folder.epoch]
    return len(records)


def _tensors_are_there(root: Root, k: int) -> None:
    segment = root.shard(0).open_segment(ModelId(f"m{k}"), Tick(1, k))
    segment.verify()
    found = segment.read()
    assert (found[0] == k).all()
    assert found[0].shape == ((k % 3 + 1) * 20_000,)
    # m1 is written anew without it.
    assert found[1] == np.float32(k) if k != 1 or 1 in found else k == 1


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder where fsync costs nothing: no process' death can tell the difference."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="daskevo-test-") as folder:
        yield Path(folder)


@pytest.mark.long
@pytest.mark.parametrize("durability", ["written", "synced"])
def test_killed_at_random_moments(tmp_path: Path, durability: str) -> None:
    root = Root.create(tmp_path / "root", shards=1, durability=durability)
    rng = np.random.default_rng(7)
    answered = 0
    for lines in rng.integers(0, 12, 8).tolist():
        # It is some hundred lines ahead at most, however long this process stands still.
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(root.path)], stdout=subprocess.PIPE, text=True, pipesize=4096
        )
        assert writer.stdout is not None
        try:
            word, count = writer.stdout.readline().split()
            assert (word, int(count)) == ("read", max(int(count), answered))
            for _ in range(lines):
                word, count = writer.stdout.readline().split()
                assert word == "stored"
                answered = int(count) + 1
        finally:
            writer.kill()
            # What it printed until the signal came counts too.
            for line in writer.stdout:
                answered = int(line.split()[1]) + 1
            writer.stdout.close()
            assert writer.wait() == -signal.SIGKILL
        answered = _check(root, answered)
        for k in range(answered):
            _tensors_are_there(root, k)
    assert answered > 20


@pytest.mark.parametrize(
    "durability", ["written", *(pytest.param(name, marks=pytest.mark.long) for name in ("volatile", "synced"))]
)
def test_killed_at_every_call_of_the_system(place: Path, durability: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DIES_AT, str(place), durability], stdout=subprocess.PIPE, text=True, check=True
    )
    results: list[list[str]] = json.loads(done.stdout)
    assert len(results) > 50
    for number, answers in enumerate(results, 1):
        root = Root.create(place / str(number), shards=2)
        stored = [int(word) for word in answers if word.isdigit()]
        count = _check(root, max(stored, default=-1) + 1)
        folder = root.shard(0)
        temporary = [file for file in folder.segments() if file.temporary]
        assert len(temporary) <= 1
        for k in (0, 1, 4, 5):
            deleting = k == 0 and count >= 4
            if k < count and not (deleting and not folder.segment_path(ModelId("m0"), Tick(1, 0)).exists()):
                _tensors_are_there(root, k)
        # Whatever was half done is swept, and the shard goes on.
        owner = root.shard(0)
        owner.serve(owner.open(1).records)
        owner.delete([(file.model_id, file.attempt) for file in temporary], temporary=True)
        assert not [file for file in owner.segments() if file.temporary]
        owner.append([{"stored": count}])
        assert _check(root, count + 1) == count + 1
