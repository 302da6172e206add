"""The contracts of daskevo.testing: every implementation of ours keeps them, and broken ones are told so."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daskevo
from daskevo.client.connection import ClientConnection, connect
from daskevo.errors import InvalidInput, ShardFenced
from daskevo.offline.root import OfflineConnection
from daskevo.store.journal import Journal
from daskevo.store.root import Root
from daskevo.store.segment_names import segment_name
from daskevo.store.shard_folder import Opening, ShardFolder
from daskevo.store.tiers import DurableTensors, SpillingTensors, Tensors
from daskevo.testing import check_connection, check_shard_store, check_tensors, check_transport
from daskevo.testing.transports import SPARE_S
from daskevo.wire.transport import NoAnswer
from tests.cluster.helpers import evo_cluster, open_here, plugin_of

GOLDEN = Path(__file__).parents[1] / "corpus" / "golden" / "v1" / "root"

# -- tensors -----------------------------------------------------------------------------------------------------------


def durable(cls: type[DurableTensors], folder: Path, memory_bytes: int) -> Callable[[], Tensors]:
    numbers = itertools.count()

    def make() -> Tensors:
        own = folder / str(next(numbers))
        own.mkdir()
        return cls(lambda model_id, attempt: own / segment_name(model_id, attempt), memory_bytes)

    return make


def spilling(cls: type[SpillingTensors], folder: Path, memory_bytes: int) -> Callable[[], Tensors]:
    numbers = itertools.count()
    return lambda: cls(folder / str(next(numbers)), memory_bytes)


@pytest.mark.parametrize("memory_bytes", [0, 300, 1 << 30])
@pytest.mark.parametrize(("maker", "cls"), [(durable, DurableTensors), (spilling, SpillingTensors)])
def test_tensors(maker: Any, cls: Any, memory_bytes: int, tmp_path: Path) -> None:
    check_tensors(maker(cls, tmp_path, memory_bytes), memory_bytes)


class HalfPut(SpillingTensors):
    def put(self, model_id: Any, attempt: Any, tensors: Any, meta: Any = None, known: Any = None) -> None:
        for number, array in tensors.items():
            super().put(model_id, attempt, {number: array})


class NeverFrees(SpillingTensors):
    def free(self, model_id: Any, attempt: Any, numbers: Any) -> None:
        pass


class CountsTwice(DurableTensors):
    @property
    def payload_bytes(self) -> int:
        return super().payload_bytes + self.memory_bytes


class SkipsMissing(DurableTensors):
    def read(self, keys: Any) -> Any:
        return super().read(key for key in keys if key in self)


class OffByOne(SpillingTensors):
    def range(self, key: Any, start: int, stop: int) -> Any:
        return super().range(key, start, max(stop - 1, start))


class RuinsOnRefusal(SpillingTensors):
    def put(self, model_id: Any, attempt: Any, tensors: Any, meta: Any = None, known: Any = None) -> None:
        try:
            super().put(model_id, attempt, tensors, meta, known)
        except InvalidInput:
            there = [number for number in tensors if (model_id, attempt, number) in self]
            super().put(model_id, attempt, {number: np.full(7, -1.0) for number in there})
            raise


class FreesOthers(SpillingTensors):
    def free(self, model_id: Any, attempt: Any, numbers: Any) -> None:
        numbers = set(numbers)
        for key in [key for key in self if key[0] == model_id and key[2] in numbers]:
            super().free(key[0], key[1], [key[2]])


class TakesAll(DurableTensors):
    @property
    def memory_bytes(self) -> int:
        return super().memory_bytes + 301


@pytest.mark.parametrize(
    ("maker", "cls", "said"),
    [
        (spilling, HalfPut, "nothing may be there"),
        (spilling, NeverFrees, "what is freed is gone"),
        (durable, CountsTwice, "counted, and once"),
        (durable, SkipsMissing, "KeyError"),
        (spilling, OffByOne, "those bytes"),
        (durable, TakesAll, "than the budget"),
        (spilling, RuinsOnRefusal, "must leave what was there"),
        (spilling, FreesOthers, "freeing one attempt must leave the other"),
    ],
)
def test_broken_tensors(maker: Any, cls: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=said):
        check_tensors(maker(cls, tmp_path, 300), 300)


# -- the shard's store -------------------------------------------------------------------------------------------------


def shards(cls: type[ShardFolder], folder: Path, durability: Any = "written") -> Callable[[], Any]:
    numbers = itertools.count()

    def new() -> Callable[[], ShardFolder]:
        root = Root.create(folder / str(next(numbers)), shards=2, durability=durability)
        return lambda: cls(root.path, 1, durability=durability)

    return new


@pytest.mark.parametrize("durability", ["written", "synced", "volatile"])
def test_shard_folder(durability: str, tmp_path: Path) -> None:
    check_shard_store(shards(ShardFolder, tmp_path, durability))


class NeverFenced(ShardFolder):
    def check(self) -> None:
        pass


class TakesBack(ShardFolder):
    def append(self, records: Any, *, flush: bool = True, frees: bool = False) -> None:
        super().append(records[:1], flush=flush, frees=frees)


class DeletesForAnyone(ShardFolder):
    def delete(self, attempts: Any) -> int:
        freed = 0
        for attempt in attempts:
            path = self.segment_path(*attempt)
            if path.exists():
                freed += path.stat().st_size
                path.unlink()
        return freed


class RenewsForAnyone(ShardFolder):
    def renew(self, head: Any) -> None:
        with contextlib.suppress(ShardFenced):
            super().renew(head)


class OpensForAnyone(ShardFolder):
    """Takes whoever comes later for a later generation."""

    openings = itertools.count()

    def open(self, generation: int) -> Opening:
        return super().open(generation + 10 * next(self.openings))


class LosesOnClose(ShardFolder):
    """Keeps back what need not be flushed."""

    def append(self, records: Any, *, flush: bool = True, frees: bool = False) -> None:
        if flush:
            super().append(records, flush=flush, frees=frees)


class KeepsAll(ShardFolder):
    def renew(self, head: Any) -> None:
        self.check()


@pytest.mark.parametrize(
    ("cls", "said"),
    [
        (NeverFenced, "overtaken must not append"),
        (TakesBack, "is there, in order"),
        (DeletesForAnyone, "overtaken must not delete"),
        (RenewsForAnyone, "overtaken must not renew"),
        (OpensForAnyone, "an earlier generation must not open"),
        (LosesOnClose, "is there, in order"),
        (KeepsAll, "shorter"),
    ],
)
def test_broken_shard_folders(cls: type[ShardFolder], said: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=said):
        check_shard_store(shards(cls, tmp_path))


def test_a_journal_that_forgets_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "append", lambda self, records: self.nbytes)
    with pytest.raises(AssertionError, match="is there, in order"):
        check_shard_store(shards(ShardFolder, tmp_path))


# -- transports and connections ----------------------------------------------------------------------------------------


class Changed:
    """A transport that does as another does, but for one thing."""

    def __init__(self, transport: Any, **changes: Any) -> None:
        self._transport = transport
        self.__dict__ |= changes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


async def deaf_to(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take in whatever comes, and say nothing."""
    while await reader.read(1 << 16):
        pass
    writer.close()


@evo_cluster()
async def test_transports_and_connections_of_a_cluster(c: Any, s: Any, a: Any, t: Any, tmp_path: Path) -> None:
    repository = await open_here(c, tmp_path / "root")
    transport = repository.connection.session.transport
    own = plugin_of(a).session.transport
    silence = await asyncio.start_server(deaf_to, "127.0.0.1", 0)
    deaf = f"tcp://127.0.0.1:{silence.sockets[0].getsockname()[1]}"
    try:
        for nowhere in ("tcp://127.0.0.1:1", deaf):
            await check_transport(transport, a.address, nowhere=nowhere)
        assert own.is_here(a.address)
        await check_transport(own, a.address, nowhere="tcp://127.0.0.1:1")
        await check_connection(repository.connection)
        await check_connection(ClientConnection(c, repository.settings.key, 60.0))
        await broken_transports(transport, a.address, deaf)
    finally:
        silence.close()
    await c.submit(in_a_task, repository, pure=False)


async def broken_transports(transport: Any, address: str, deaf: str) -> None:
    async def as_values(*arguments: Any, **options: Any) -> Any:
        try:
            return await transport.provider(*arguments, **options)
        except daskevo.errors.DaskevoError as error:
            return {"error": str(error)}

    async def for_ever(where: str, method: str, **options: Any) -> Any:
        if where == deaf:
            await asyncio.Event().wait()
        return await transport.provider(where, method, **options)

    async def bare(method: str, **options: Any) -> Any:
        try:
            return await transport.coordinator(method, **options)
        except daskevo.errors.NotDeployed as error:
            raise KeyError(method) from error

    async def elsewhere(where: str, method: str, **options: Any) -> Any:
        if where == address and method == "pulse":
            return {"shards": []}
        return await transport.provider(where, method, **options)

    for changes, said in (
        ({"provider": elsewhere}, "reach the provider"),
        ({"provider": as_values}, "a typed error of a provider must be"),
        ({"provider": for_ever}, "when its time is up"),
        ({"coordinator": bare}, "must be a NotDeployed, not KeyError"),
        ({"is_here": lambda where: True}, "nobody is here"),
    ):
        spare_s = 0.5 if changes.get("provider") is for_ever else SPARE_S
        with pytest.raises(AssertionError, match=said):
            await check_transport(Changed(transport, **changes), address, nowhere=deaf, spare_s=spare_s)


def in_a_task(repository: Any) -> None:
    connection = connect(repository.settings.key, 60.0)
    asyncio.run(check_connection(connection))


@pytest.fixture
def look(tmp_path: Path) -> OfflineConnection:
    shutil.copytree(GOLDEN, tmp_path / "root")
    return OfflineConnection(tmp_path / "root", 10.0)


def test_transport_and_connection_without_a_cluster(look: OfflineConnection) -> None:
    asyncio.run(check_connection(look))
    look.run(partial(check_transport, look.transport, "here", nowhere="tcp://127.0.0.1:1"))


class Quiet(OfflineConnection):
    def run(self, function: Any, *arguments: Any) -> Any:
        try:
            return super().run(function, *arguments)
        except LookupError:
            return None


class Late(OfflineConnection):
    """Does what is posted after whatever is run next."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.posted: list[Callable[[], Any]] = []

    def post(self, function: Any, *arguments: Any) -> None:
        self.posted.append(partial(function, *arguments))

    def run(self, function: Any, *arguments: Any) -> Any:
        result = super().run(function, *arguments)
        while self.posted:
            self.posted.pop(0)()
        return result


class Stranger(OfflineConnection):
    def caller(self) -> Any:
        return np.random.default_rng().integers(1 << 60)


@pytest.mark.parametrize(
    ("cls", "said"), [(Quiet, "must be raised"), (Late, "before whatever is run later"), (Stranger, "who asks")]
)
def test_broken_connections(cls: type[OfflineConnection], said: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN, tmp_path / "root")
    with pytest.raises(AssertionError, match=said):
        asyncio.run(check_connection(cls(tmp_path / "root", 10.0)))


def test_a_look_answers_nothing_for_others(look: OfflineConnection) -> None:
    with pytest.raises(NoAnswer, match="this process alone"):
        look.run(lambda: look.transport.provider("tcp://127.0.0.1:1", "pulse", timeout_s=1.0))
