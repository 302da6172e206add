"""Whoever leaves the block of a child while its put is under way, and how: what is published has all that it needs."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

import daskevo
from daskevo.repository import Repository, inheritance
from daskevo.wire.transport import PoolTransport

LIMIT_S = 60.0


class Alarm(Exception):
    """As time limits raise it from a signal. Not a TimeoutError: asyncio catches OSErrors where it wakes a loop up."""


HOWS = {"alarm": Alarm("over time"), "exit": SystemExit(3), "Ctrl-C": KeyboardInterrupt()}
POINTS = ("packing", "before", "after")
"""Where the put is: its tensors are written, before home hears of it, after home has carried it out."""


class Stops:
    """Stops every put at one point, says so, and lets it go on (if it still does) when the test says so."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, point: str, reached: Callable[[], object], go_on: threading.Event
    ) -> None:
        self.point, self.reached, self.go_on = point, reached, go_on
        self._prepare, self._provider = inheritance.prepare, PoolTransport.provider
        monkeypatch.setattr(inheritance, "prepare", self.prepare)
        stops = self

        async def provider(transport: Any, address: str, method: str, **arguments: Any) -> Any:
            if (method, stops.point) == ("put", "before"):
                await stops.stop()
            value = await stops._provider(transport, address, method, **arguments)
            if (method, stops.point) == ("put", "after"):
                await stops.stop()
            return value

        monkeypatch.setattr(PoolTransport, "provider", provider)

    async def stop(self) -> None:
        """Wait until the test says so, or whoever leaves the block ends it."""
        self.reached()
        while not self.go_on.is_set():
            await asyncio.sleep(0.01)

    def prepare(self, *arguments: Any, **options: Any) -> Any:
        made = self._prepare(*arguments, **options)
        if self.point == "packing":
            self.reached()
            assert self.go_on.wait(LIMIT_S)
        return made


def build(units: int = 3) -> Any:
    import keras

    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(6), keras.layers.Dense(units)])


@pytest.fixture(scope="module")
def repository(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("left") / "root"
    return daskevo.open(root, "left", client=client, objective="max score", shards=4, timeout_s=LIMIT_S)


@pytest.fixture
def raising() -> Iterator[Callable[..., Callable[[], None]]]:
    """Return a function that makes an exception be raised in this thread when what it returns is called in another.

    `then` is called just before that.
    """
    before = signal.getsignal(signal.SIGUSR1)
    here = threading.get_ident()

    def prepared(error: BaseException, then: Callable[[], object] | None = None) -> Callable[[], None]:
        def handler(number: int, frame: Any) -> None:
            if then is not None:
                then()
            raise error

        signal.signal(signal.SIGUSR1, handler)
        return lambda: signal.pthread_kill(here, signal.SIGUSR1)

    yield prepared
    signal.signal(signal.SIGUSR1, before)


def put_parent(repository: Repository) -> str:
    name = f"parent-{uuid.uuid4().hex[:8]}"
    with repository.inherit(build(), ancestor=False, model_id=name) as parent:
        return str(parent.put(metrics={"score": 1.0}))


def check(repository: Repository, parent: str, child: str) -> None:
    """Nothing is lost, nothing is left, once the parent is retired and everything has settled."""
    repository.retire(parent)
    until = time.monotonic() + LIMIT_S
    while not (found := repository.verify()).clean and time.monotonic() < until:
        time.sleep(0.05)
    assert found.clean, found.differences
    if repository.status(child).state == "published":
        assert len(repository.read(child)) == 4
        repository.retire(child)
    assert repository.root is not None
    while (files := list(Path(repository.root).rglob("*.seg*"))) and time.monotonic() < until:
        time.sleep(0.05)
    assert not files


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("how", HOWS)
def test_an_exception_while_a_put_is_waited_for(
    repository: Repository, raising: Any, monkeypatch: pytest.MonkeyPatch, how: str, point: str
) -> None:
    parent = put_parent(repository)
    child = f"child-{uuid.uuid4().hex[:8]}"
    with monkeypatch.context() as patch:
        go_on = threading.Event()
        # Who leaves waits for a thread that writes, so that one may go on.
        stops = Stops(patch, point, raising(HOWS[how], go_on.set if point == "packing" else None), go_on)
        with pytest.raises(type(HOWS[how])), repository.inherit(build(5), ancestor=parent, model_id=child) as made:
            made.put(metrics={"score": 1.0})
        stops.go_on.set()
        check(repository, parent, child)


@pytest.mark.parametrize("point", POINTS)
def test_another_call_of_a_gather_fails_while_a_put_is_under_way(
    client: Client, repository: Repository, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    parent = put_parent(repository)
    child = f"child-{uuid.uuid4().hex[:8]}"

    async def run() -> None:
        reached, go_on = threading.Event(), threading.Event()
        Stops(monkeypatch, point, reached.set, go_on)
        async with Client(client.scheduler.address, asynchronous=True) as other:
            mine = await daskevo.open(repository.root, "left", client=other, timeout_s=LIMIT_S)

            async def fail() -> None:
                while not reached.is_set():
                    await asyncio.sleep(0.01)
                if point == "packing":
                    go_on.set()
                raise ValueError("the other call")

            async def leave() -> None:
                async with mine.inherit(build(5), ancestor=parent, model_id=child) as made:
                    await asyncio.gather(made.put(metrics={"score": 1.0}), fail())

            with pytest.raises(ValueError, match="other call"):
                await leave()
            go_on.set()

    asyncio.run(run())
    check(repository, parent, child)


@pytest.mark.parametrize("how", HOWS)
def test_an_exception_while_a_reservation_is_waited_for(
    repository: Repository, raising: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    parent = put_parent(repository)
    reached = raising(HOWS[how])
    provider = PoolTransport.provider

    async def slow(transport: Any, address: str, method: str, **arguments: Any) -> Any:
        value = await provider(transport, address, method, **arguments)
        if method == "refer":
            reached()
            await asyncio.sleep(0.5)
        return value

    with monkeypatch.context() as patch:
        patch.setattr(PoolTransport, "provider", slow)
        with pytest.raises(type(HOWS[how])), repository.inherit(build(5), ancestor=parent):
            pytest.fail("the block is not entered")
    check(repository, parent, "nobody")
