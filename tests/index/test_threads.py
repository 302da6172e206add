"""Threads that query while others insert and remove: each answer is right for some moment of its call."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from daskevo.index import Entry, PrefixIndex, Query
from daskevo.index.read_write_lock import ReadWriteLock
from daskevo.types import ModelId, Tick
from tests.index.families import child, express, founder
from tests.index.plain import PlainIndex


@pytest.fixture(autouse=True)
def switching_often() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@contextmanager
def running(*functions) -> Iterator[None]:
    """Run functions in threads; raise what ended one of them."""
    failures: list[BaseException] = []

    def guarded(function) -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001 - a thread must hand over whatever ended it
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join(timeout=200)
    assert not any(thread.is_alive() for thread in threads)
    if failures:
        raise failures[0]


def test_each_answer_is_right_for_some_moment() -> None:
    draw = random.Random(7)
    founders = [founder(draw, 9) for _ in range(4)]
    queries = [express(child(draw, draw.choice(founders))) for _ in range(12)]
    changes: list[Entry | ModelId] = []
    living: list[ModelId] = []
    for number in range(400):
        if living and draw.random() < 0.45:
            changes.append(living.pop(draw.randrange(len(living))))
        else:
            name = ModelId(f"m{number}")
            living.append(name)
            ids = express(child(draw, draw.choice(founders))).ids
            changes.append(Entry("digits", name, ids, draw.random(), Tick(1, number)))
    # What is right after each number of changes, found out before.
    plain = PlainIndex()
    right = [[None] * len(queries)]
    for change in changes:
        if isinstance(change, Entry):
            plain.insert(change)
        else:
            plain.remove(change)
        right.append([plain.best("digits", Query(model.ids)) for model in queries])

    index = PrefixIndex()
    index.warm()
    done = 0
    asked = [Query(model.ids, edges=model.edges) for model in queries]
    reads = 0

    def write() -> None:
        nonlocal done
        for change in changes:
            if done % 10 == 0:
                # Readers get a turn now and then, however fast the changes are.
                seen = reads
                while reads == seen:
                    time.sleep(0)
            if isinstance(change, Entry):
                index.insert(*change)
            else:
                index.remove(change)
            done += 1

    def read() -> None:
        nonlocal reads
        while done < len(changes):
            before = done
            answers = index.best_many("digits", asked)
            after = min(done + 1, len(changes))  # one may have taken effect without having been counted
            assert answers in right[before : after + 1]
            reads += 1

    with running(write, read, read):
        pass
    assert index.best_many("digits", asked) == right[-1]


def test_readers_are_inside_together() -> None:
    lock = ReadWriteLock()
    both = threading.Barrier(2, timeout=60)

    def read() -> None:
        with lock.reading:
            both.wait()

    with running(read, read):
        pass
    assert both.n_waiting == 0
    assert not both.broken


def test_a_writer_waits_for_readers_and_later_readers_for_the_writer() -> None:
    lock = ReadWriteLock()
    events: list[str] = []
    inside, leave = threading.Event(), threading.Event()

    def read_first() -> None:
        with lock.reading:
            inside.set()
            assert leave.wait(60)
            events.append("first reader leaves")

    def write() -> None:
        assert inside.wait(60)
        with lock.writing:
            events.append("writer")

    def read_later() -> None:
        # Only once the writer stands in the gate, through which the first reader has gone.
        assert inside.wait(60)
        while not lock._gate.locked():
            pass
        with lock.reading:
            events.append("later reader")

    with running(read_first, write, read_later):
        assert inside.wait(60)
        while not lock._gate.locked():
            pass
        assert events == []
        leave.set()
    assert events == ["first reader leaves", "writer", "later reader"]


def test_a_writer_is_alone_and_an_error_opens_the_lock() -> None:
    lock = ReadWriteLock()
    count = 0

    def add() -> None:
        nonlocal count
        for _ in range(300):
            with lock.writing:
                seen = count
                threading.Event().wait(0)
                count = seen + 1

    with running(add, add, add):
        pass
    assert count == 900
    for hold in (lock.reading, lock.writing):
        with pytest.raises(ZeroDivisionError), hold:
            raise ZeroDivisionError
    with lock.writing:
        pass
