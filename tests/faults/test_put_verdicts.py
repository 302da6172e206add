"""Put's three verdicts when messages are lost, late or doubled, and providers are full or silent at exact points."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from daskevo.errors import InvalidInput, PutFailed, PutUnknown, RootUnusable
from daskevo.protocol.messages import Abort, Put, message_from_wire
from daskevo.provider import put_receiver
from daskevo.types import ModelId, Tick
from daskevo.wire.transport import NoAnswer, operation
from tests.cluster.helpers import (
    at_rest,
    chain,
    coordinator_of,
    evo_cluster,
    make,
    open_here,
    plugin_of,
    put_reserved,
    reserve,
    values,
)

GRAPH, WIDER = chain(8, 6, 3), chain(8, 6, 5)


class UnderWay:
    """Counts the messages of a client that have no answer yet."""

    def __init__(self, transport: Any) -> None:
        self._count = 0
        self._real = transport._call
        transport._call = self._call

    @classmethod
    def of(cls, transport: Any) -> UnderWay:
        """Return the one of a transport, made once."""
        found = getattr(transport._call, "__self__", None)
        return found if isinstance(found, cls) else cls(transport)

    async def _call(self, *arguments: Any, **options: Any) -> Any:
        self._count += 1
        try:
            return await self._real(*arguments, **options)
        finally:
            self._count -= 1

    async def ended(self) -> None:
        """Wait until none is under way."""
        while self._count:
            await asyncio.sleep(0.01)


class Intercept:
    """Stands between a client and one operation of a provider.

    Nobody waits for what is lost: the clock is set forward by as long as the caller would have waited, once the calls
    that are under way have their answers: they have all the time that a slow machine takes.

    Parameters
    ----------
    before, after:
        What happens to a message before it is carried out, and to its answer: nothing, ``"lose"`` (it is never
        answered), ``"hang"`` (the same, and it is waited for).
    which:
        Says of the arguments whether they are meant.
    """

    def __init__(
        self,
        worker: Any,
        repository: Any,
        method: str,
        *,
        before: str = "",
        after: str = "",
        which: Callable[[dict[str, Any]], bool] = lambda arguments: True,
    ) -> None:
        self.address, self.method, self.which = worker.address, method, which
        self.before, self.after = before, after
        self.seen = 0
        self._transport = repository.connection.session.transport
        self._under_way = UnderWay.of(self._transport)
        self._real = self._transport.provider
        self._stopped = False
        self._transport.provider = self._provider

    async def _provider(self, address: str, method: str, *, timeout_s: float, **arguments: Any) -> Any:
        meant = not self._stopped and (address, method) == (self.address, self.method) and self.which(arguments)
        if not meant:
            return await self._real(address, method, timeout_s=timeout_s, **arguments)
        self.seen += 1
        if self.before:
            await self._lost(self.before, timeout_s, arguments)
        answer = await self._real(address, method, timeout_s=timeout_s, **arguments)
        if self.after:
            await self._lost(self.after, timeout_s, arguments)
        return answer

    async def _lost(self, how: str, timeout_s: float, arguments: dict[str, Any]) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_s
        if how == "hang":
            await asyncio.sleep(timeout_s)
        elif "shard" in arguments:  # else all providers are asked at once, and nobody is asked again
            await self._under_way.ended()
            set_clock_forward(max(0.0, until - loop.time()))  # of several that are lost at once one has set it
        raise NoAnswer(self.address, self.method, f"time limit of {timeout_s:.2g} s", late=True)

    def stop(self) -> None:
        """Let all through; others may stand before it by now."""
        self._stopped = True


def set_clock_forward(seconds: float) -> None:
    """Set the running event loop's clock forward: who waits for a moment before that waits no longer."""
    loop = asyncio.get_running_loop()
    before = loop.time
    loop.time = lambda: before() + seconds  # type: ignore[method-assign]


def is_abort(arguments: dict[str, Any]) -> bool:
    return any(isinstance(message_from_wire(message), Abort) for message in arguments["messages"])


async def _ready(c: Any, root: Any) -> tuple[Any, Any]:
    repository = await open_here(c, root)
    await make(repository, GRAPH, "first", seed=1)
    return repository, await reserve(repository, WIDER, "child")


@evo_cluster()
async def test_the_answer_is_lost_but_the_put_was_carried_out(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository, reservation = await _ready(c, tmp_path / "root")
    lost = Intercept(a, repository, "put", after="lose")
    stored = await put_reserved(repository, WIDER, reservation, labels=["population:run"])
    assert lost.seen
    assert not stored.by_other
    assert (await repository.status("child")).labels == ("population:run",)
    assert (await repository.verify()).clean


@evo_cluster()
async def test_the_answer_is_lost_once_and_the_put_is_sent_again(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository, reservation = await _ready(c, tmp_path / "root")
    host = plugin_of(a).host
    real, calls = host.shards[await repository.connection.session.directory.shard_of(ModelId("child"))].put, []

    async def twice(message: Put, brought: Any) -> Any:
        calls.append(message)
        first, second = await asyncio.gather(real(message, brought), real(message, brought))
        assert first == second
        return first

    for served in host.shards.values():
        if served.put == real:
            served.put = twice
    await put_reserved(repository, WIDER, reservation)
    assert len(calls) == 1
    verification = await repository.verify()
    assert verification.clean, verification.differences
    assert (verification.models, verification.tensors) == (2, 8)


@evo_cluster()
async def test_the_put_never_arrives(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository, reservation = await _ready(c, tmp_path / "root")
    lost = Intercept(a, repository, "put", before="lose")
    with pytest.raises(PutFailed, match="nothing leaks"):
        await put_reserved(repository, WIDER, reservation)
    assert (await repository.status("child")).state == "unknown"
    assert (await repository.stats())["references"] == 1
    lost.stop()
    await make(repository, WIDER, "child")  # a new attempt
    assert (await repository.verify()).clean


@evo_cluster()
async def test_a_put_that_arrives_after_its_abort(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository, reservation = await _ready(c, tmp_path / "root")
    late: list[dict[str, Any]] = []

    def keep(arguments: dict[str, Any]) -> bool:
        late.append(arguments)
        return True

    Intercept(a, repository, "put", before="lose", which=keep)
    with pytest.raises(PutFailed):
        await put_reserved(repository, WIDER, reservation)
    answer = await a.handlers[operation("provider", repository.settings.key, "put")](**late[0])
    assert answer["value"]["reply"]["reason"] == "aborted"
    assert (await repository.status("child")).state == "unknown"
    assert not list((tmp_path / "root").rglob("child*.seg"))
    assert (await repository.verify()).clean


@evo_cluster()
async def test_neither_put_nor_abort_is_answered(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository, reservation = await _ready(c, tmp_path / "root")
    puts = Intercept(a, repository, "put", after="lose")
    aborts = Intercept(a, repository, "ask", before="lose", which=is_abort)
    with pytest.raises(PutUnknown, match=r"repository\.status"):
        await put_reserved(repository, WIDER, reservation)
    puts.stop()
    aborts.stop()
    await at_rest(s, a)
    # It had been carried out before the answer was lost.
    assert (await repository.status("child")).state == "published"
    assert coordinator_of(s)._core.live() == {}
    assert (await repository.verify()).clean


@evo_cluster()
async def test_the_disk_is_full(c: Any, s: Any, a: Any, t: Any, tmp_path: Any, monkeypatch: Any) -> None:
    repository, reservation = await _ready(c, tmp_path / "root")

    def full(*arguments: Any, **keywords: Any) -> None:
        raise RootUnusable("no space left", folder=str(tmp_path))

    monkeypatch.setattr("daskevo.store.segment_tier.write_segment", full)
    monkeypatch.setattr("daskevo.store.shard_segments.write_segment", full)
    with pytest.raises(PutFailed, match="no space left"):
        await put_reserved(repository, WIDER, reservation)
    monkeypatch.undo()
    assert (await repository.stats())["references"] == 1
    await make(repository, WIDER, "child")
    assert (await repository.verify()).clean


@evo_cluster()
async def test_a_journal_that_takes_no_record(c: Any, s: Any, a: Any, t: Any, tmp_path: Any, monkeypatch: Any) -> None:
    repository, reservation = await _ready(c, tmp_path / "root")
    home = plugin_of(a).host.shards[await repository.connection.session.directory.shard_of(ModelId("child"))]
    real = home.folder.append

    def full(records: Any, **keywords: Any) -> None:
        if records:
            raise RootUnusable("no space left", folder=str(tmp_path))
        real(records, **keywords)

    home.folder.append = full
    with pytest.raises(PutUnknown):
        await put_reserved(repository, WIDER, reservation)
    assert not list((tmp_path / "root").rglob("child*.seg"))
    home.folder.append = real
    coordinator_of(s)._core.resume_settling()
    coordinator_of(s)._settler.wake()
    await at_rest(s, a)
    assert (await repository.status("child")).state == "unknown"
    assert (await repository.stats())["references"] == 1
    assert (await repository.verify()).clean


@evo_cluster(providers=2)
async def test_owners_may_be_down_during_a_put(c: Any, s: Any, a: Any, b: Any, t: Any, tmp_path: Any) -> None:
    repository, reservation = await _ready(c, tmp_path / "root")
    table = await repository.connection.session.directory.table()
    workers = {worker.address: worker for worker in (a, b)}
    owner = workers[table.place(ModelId("first")).address]
    name = next(f"child-{n}" for n in range(99) if table.place(ModelId(f"child-{n}")).address != owner.address)
    reservation = await reserve(repository, WIDER, name)
    silent = Intercept(owner, repository, "ask", before="hang")
    changed = {0: values(WIDER, 7)[0]}
    # Nobody waits for the drops.
    stored = await asyncio.wait_for(put_reserved(repository, WIDER, reservation, tensors=changed), 60)
    silent.stop()
    assert stored.record.owner_map.entries[0].owner == name
    assert (await repository.verify(repair=True)).clean


@evo_cluster()
async def test_a_silent_owner_is_passed_over(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository, reservation = await _ready(c, tmp_path / "root")
    silent = Intercept(a, repository, "refer", after="lose")
    again = await reserve(repository, WIDER, "another")
    assert again.ancestor is None
    assert list(again.tried) == ["first"]
    silent.stop()
    # The refer had been carried out; what it reserved was given back, under an attempt that is over.
    await put_reserved(repository, WIDER, again, seed=4)
    await put_reserved(repository, WIDER, reservation)
    assert (await repository.verify()).clean


@evo_cluster()
async def test_a_put_that_was_on_its_way_while_its_label_was_released_from_all(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    reservation = await reserve(repository, GRAPH, "late")
    session = repository.connection.session
    tick = session.tick

    async def released_meanwhile() -> Any:
        taken = await tick()
        session.tick = tick
        assert await repository.release_label("population:run") == ((), ())
        return taken

    session.tick = released_meanwhile
    stored = await put_reserved(repository, GRAPH, reservation, labels=["population:run"])
    assert not stored.by_other
    await at_rest(s, a)
    assert (await repository.status("late")).state == "retired"
    assert await repository.best_match([GRAPH]) == [None]
    verification = await repository.verify()
    assert verification.clean, verification.differences
    assert verification.tensors == 0


@pytest.mark.parametrize("root", [None, "root"])
def test_what_is_attached_has_one_limit_with_a_root_and_without(
    root: str | None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(put_receiver, "MAX_RECORD_BYTES", 10_000)

    @evo_cluster()
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        repository = await open_here(c, None if root is None else tmp_path / root)
        with pytest.raises(InvalidInput, match="10000 is the limit"):
            await make(repository, GRAPH, "large", labels=[f"user:{number}" for number in range(3)], extra="x" * 10_000)
        assert (await repository.status("large")).state == "unknown"
        await make(repository, GRAPH, "small", extra="x" * 100)
        await at_rest(s, a)
        verification = await repository.verify()
        assert verification.clean, verification.differences
        assert verification.models == 1
        assert len(list(tmp_path.rglob("*.seg*"))) == (0 if root is None else 1)

    run()


@evo_cluster()
async def test_a_hold_whose_tick_is_of_an_older_generation_takes_another(c: Any, s: Any, a: Any, t: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, GRAPH, "first")
    session = repository.connection.session
    tick = session.tick

    async def older() -> Tick:
        session.tick = tick
        return Tick(0, 7)

    session.tick = older
    assert await session.hold(ModelId("first"), "user:me") == ("user:kept", "user:me")
