"""Messages that nobody of ours would send: one named error each, nothing changed, no memory for what they claim."""

from __future__ import annotations

import asyncio
import contextlib
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from distributed.system import MEMORY_LIMIT

from daskevo.deploy.settings import MOST_LEAVING_BYTES, PROCESS_BYTES, MemoryBudget, RepositorySettings
from daskevo.errors import CorruptRecord, InvalidInput, ProviderFull, PutFailed
from daskevo.protocol.messages import Put, Refer
from daskevo.protocol.owner_map import OwnerMap
from daskevo.provider import transfer_memory, upload_buffer
from daskevo.provider.handlers import ProviderHandlers
from daskevo.provider.upload_buffer import UploadBuffers
from daskevo.store.tiers import SpillingTensors
from daskevo.types import ModelId, TensorSpec, Tick
from daskevo.wire import tensor_framing
from daskevo.wire.schema import ARGUMENTS, COORDINATOR, PROVIDER
from daskevo.wire.transport import Frames
from tests.cluster.helpers import chain, coordinator_of, evo_cluster, make, open_here, plugin_of, put_reserved, reserve

GRAPH = chain(8, 6, 3)
NAMES = {
    "path upwards": "../x",
    "absolute path": "/etc/passwd",
    "drive": "C:\\x",
    "escaped dots": "%2e%2e",
    "escaped slash": "a%2fb",
    "zero": "a\0b",
    "line": "a\nb",
    "too long": "a" * 300,
    "empty": "",
    "dots": "..",
    "hidden": ".a",
    "blank": "a b",
    "cyrillic": "m\u043edel",
    "full-width": "\uff41\uff42",
    "combining": "a\u0301",
    "right to left": "a\u202eb",
    "lone surrogate": "a\udc80",
    "number": 7,
    "bytes": b"first",
    "list": ["first"],
}
"""Ids that are none: what they are -> one."""
ODD: dict[str, Any] = {
    "None": None,
    "text": "x",
    "negative": -1,
    "huge": 2**64 - 1,
    "float": 0.5,
    "NaN": float("nan"),
    "list": [1],
    "deep": [[[[[]]]]],
    "mapping": {"a": 1},
    "bytes": b"\x80" * 9,
    "true": True,
}
"""Values of the wrong kind, for any argument."""


def good_arguments(record: Any) -> dict[str, dict[str, dict[str, Any]]]:
    """Return arguments of every method that takes some, as our own processes send them."""
    refer = Refer(ModelId("first"), None, Tick(1, 1), frozenset({0}))
    put = Put(record, {"user:x": Tick(1, 1)})
    return {
        "provider": {
            "check": {"versions": {"daskevo": "0"}},
            "end_part": {"part": "another's"},
            "open_shards": {"shards": [0], "generation": 0, "floors": [[0, [1, 1]]], "patience_s": 1.0},
            "close_shards": {"shards": [99], "generation": 1},
            "room": {"shard": 99},
            "together": {"calls": [["ask", 99, {"messages": []}]]},
            "ask": {"shard": 99, "messages": []},
            "refer": {"shard": 99, "message": refer.to_wire(), "near": False},
            "read": {"shard": 99, "model": "first", "attempt": [1, 1], "parts": [[0, 0, 4]]},
            "make_room": {"shard": 99, "model": "first", "attempt": [1, 1], "nbytes": 4, "patience_s": 0.0},
            "land": {
                "shard": 99,
                "model": "first",
                "attempt": [1, 1],
                "specs": [[0, [1], "float32"]],
                "parts": [[0, 0, 4]],
                "frames": [b"1234"],
            },
            "put": {"shard": 99, "message": put.to_wire(), "parts": [[0, 0, 4]], "frames": [b"1234"]},
            "match": {"scope": "test", "questions": [], "records": False, "status": [99, "first"]},
            "drop_attempts": {"attempts": [["none", [0, 0]]]},
            "models": {"scope": "test", "with_snapshots": False},
            "trainings": {"scope": "test"},
            "shown": {"models": 10, "live": [[1, 1]]},
            "audit": {"give_up_lost": False},
            "recount": {"older_s": 3600.0, "remove": False},
            "lost_of": {"shard": 99, "model": "first"},
            "check_segments": {"mend": False},
            "lineage": {"shard": 99, "models": ["first"]},
            "mark_lost": {"shard": 99, "lost": [["first", [0], "why"]]},
        },
        "coordinator": {
            "hello": {"versions": {"daskevo": "0"}, "opener": "o"},
            "equipped": {"address": "tcp://127.0.0.1:9"},
            "abandon": {"opener": "o"},
            "close": {"client": "c", "force": False},
            "join": {"name": "n", "address": "tcp://127.0.0.1:9"},
            "leave": {"name": "n", "address": "tcp://127.0.0.1:9", "patience_s": 1.0},
            "assign": {"opener": "o", "patience_s": 1.0},
            "begin": {"holder": {"kind": "ClientHolder", "client_id": "x", "connection": 0}, "model": "m", "key": "k"},
            "end": {"attempts": [], "settled": True},
            "over": {"attempts": []},
            "fenced": {"shard": 99, "provider": "p", "epoch": 1, "reason": "r"},
            "scope": {"scope": "test", "objective": None},
        },
    }


def arrived(value: Any) -> Any:
    """Return a value as a message carries it: without lists."""
    return tuple(map(arrived, value)) if isinstance(value, list) else value


def is_allowed(role: str, method: str, name: str, value: Any) -> bool:
    known = ARGUMENTS[role][method]
    try:
        (known.needed.get(name) or known.more[name])(arrived(value))
    except (CorruptRecord, InvalidInput):
        return False
    return True


def everything(provider: Any, folder: Any) -> tuple[Any, ...]:
    """What must not change: the shards' states, the files, the index."""
    host = plugin_of(provider).host
    heads = {number: [record.to_json() for record in served.shard.head()] for number, served in host.shards.items()}
    files = {str(path): path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    return heads, files, sorted(host.models.nbytes), host.uploads.memory_bytes


@evo_cluster()
async def test_every_method_names_what_is_wrong_and_changes_nothing(
    c: Any, s: Any, a: Any, t: Any, tmp_path: Any
) -> None:
    repository = await open_here(c, tmp_path / "root")
    record = (await make(repository, GRAPH, "first")).record
    good = good_arguments(record)
    transport = repository.connection.session.transport
    before, generation = everything(a, tmp_path), coordinator_of(s)._core.generation

    async def call(role: str, method: str, arguments: dict[str, Any]) -> Any:
        if role == "coordinator":
            return await transport.coordinator(method, timeout_s=20, **arguments)
        return await transport.provider(a.address, method, timeout_s=20, **arguments)

    for role, methods in ARGUMENTS.items():
        # A method without a row of its own would be called with anything.
        served = (
            coordinator_of(s)._methods() if role == "coordinator" else ProviderHandlers(plugin_of(a).host).methods()
        )
        assert methods.keys() >= served.keys()
        for method, known in methods.items():
            arguments = good[role].get(method, {})
            assert arguments.keys() == known.needed.keys() | known.more.keys(), method
            tried: list[dict[str, Any]] = [{**arguments, "foreign": 1}, {**arguments, "local": True}]
            tried += [{name: arguments[name] for name in arguments if name != gone} for gone in known.needed]
            for name in arguments:
                tried += [{**arguments, name: odd} for odd in ODD.values() if not is_allowed(role, method, name, odd)]
            for name in arguments.keys() & {"model", "scope"}:
                tried += [{**arguments, name: hostile} for hostile in NAMES.values() if hostile != "a\udc80"]
            for hostile in tried:
                with pytest.raises(CorruptRecord, match=f"'{method}'"):
                    await call(role, method, hostile)
    # What is well-formed and still can't be.
    for role, method, change in (
        ("coordinator", "fenced", {}),
        ("coordinator", "scope", {"objective": "biggest score"}),
        ("coordinator", "begin", {"holder": {"kind": "Nobody"}}),
        ("provider", "ask", {"messages": [{"kind": "Nothing"}]}),
        ("provider", "refer", {"message": Put(record, {"user:x": Tick(1, 1)}).to_wire()}),
        ("provider", "put", {"message": Refer(ModelId("first"), None, Tick(1, 1), frozenset({0})).to_wire()}),
        ("provider", "match", {"questions": [[b"123", None, [], None]]}),
        ("provider", "match", {"questions": [[b"1" * 16, ["x"], [], None]]}),
        ("provider", "match", {"questions": [[b"1" * 16, None, [], b"\xff" * 8]]}),
        ("provider", "match", {"questions": [[b"1" * 32, None, [], None]]}),
    ):
        with pytest.raises((CorruptRecord, InvalidInput)):
            await call(role, method, {**good[role][method], **change})
    assert everything(a, tmp_path) == before
    assert coordinator_of(s)._core.generation == generation
    assert (await repository.verify()).clean


@pytest.mark.parametrize(
    "question",
    [
        None,
        b"1" * 16,
        (),
        (b"1" * 16, None, ()),
        (b"1" * 16, None, (), None, None),
        ("1" * 16, None, (), None),
        (None, None, (), None),
        (b"1" * 16, b"1", (), None),
        (b"1" * 16, 1, (), None),
        (b"1" * 16, None, None, None),
        (b"1" * 16, None, "m", None),
        (b"1" * 16, None, (1,), None),
        (b"1" * 16, None, ("\udc80",), None),
        (b"1" * 16, None, (), "edges"),
        (b"1" * 16, None, (), ()),
    ],
    ids=repr,
)
def test_a_question_is_what_it_has_to_be(question: Any) -> None:
    check = PROVIDER["match"].needed["questions"]
    good = (b"1" * 16, (1,), ("m",), b"")
    check((good, (b"1" * 16, None, (), None)))
    for questions in ((question,), (good, question)):
        with pytest.raises(CorruptRecord):
            check(questions)


@pytest.mark.parametrize("kind", NAMES)
def test_no_id_becomes_a_path(kind: str, tmp_path: Any) -> None:
    for method in (PROVIDER["land"], PROVIDER["read"]):
        with pytest.raises((CorruptRecord, InvalidInput)):
            method.needed["model"](NAMES[kind])
    with pytest.raises((CorruptRecord, InvalidInput)):
        COORDINATOR["begin"].needed["model"](NAMES[kind])


@evo_cluster()
async def test_ids_that_differ_in_case_only_are_two_models(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    for seed, name in enumerate(("model", "Model", "MODEL")):
        await put_reserved(repository, GRAPH, await reserve(repository, GRAPH, name, ancestor=False), seed=seed)
    files = [path.name for path in (tmp_path / "root").rglob("*.seg")]
    assert len({name.lower() for name in files}) == len(files) == 3
    found = [(await repository.read(name))[1, 0] for name in ("model", "Model", "MODEL")]
    assert not (found[0] == found[1]).all()
    assert not (found[1] == found[2]).all()


@evo_cluster()
async def test_nothing_is_allocated_for_what_a_message_claims(c: Any, s: Any, a: Any, t: Any, tmp_path: Any) -> None:
    repository = await open_here(c, tmp_path / "root")
    record = (await make(repository, GRAPH, "first")).record
    transport = repository.connection.session.transport
    shard = await repository.connection.session.directory.shard_of(ModelId("second"))
    before = everything(a, tmp_path)
    claims: list[Any] = [
        [[0, [2**40], "uint8"]],
        [[0, [2**61], "uint8"]],
        [[n, [2**20], "float64"] for n in range(2000)],
    ]
    claims += [[[0, [2**62], "uint8"]], [[-1, [1], "uint8"]], [[2**40, [1], "uint8"]], [[0, [1], "object"]]]
    claims += [[[0, 5, "uint8"]], [[0, [1.5], "uint8"]], [0], [[0]], [[0, [[]], "uint8"]]]
    tracemalloc.start()
    try:
        for specs in claims:
            message = {"shard": shard, "model": "second", "attempt": [1, 1], "parts": [], "frames": Frames()}
            with contextlib.suppress(CorruptRecord):
                assert await transport.provider(a.address, "land", timeout_s=20, specs=specs, **message) is False
        # A put in one message that says it brings what it doesn't.
        big, name = chain(1 << 28, 6, 3), ModelId("second")
        entries = OwnerMap.of(entry._replace(owner=name) for entry in record.owner_map.entries)
        own = {number: key.spec for number, key in enumerate(big.tensors)}
        claimed = replace(record, model_id=name, graph=big.text, own=own, owner_map=entries)
        wire = Put(claimed, {"user:x": Tick(1, 1)}).to_wire()
        sent = {"shard": shard, "message": wire, "parts": [], "frames": Frames([np.zeros(1, np.uint8)])}
        assert "not all" in (await transport.provider(a.address, "put", timeout_s=20, **sent))["unseen"]
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert everything(a, tmp_path) == before
    assert (await repository.verify()).clean


@evo_cluster()
async def test_a_put_larger_than_a_provider_takes_in_fails_by_name(
    c: Any, s: Any, a: Any, t: Any, monkeypatch: Any
) -> None:
    from daskevo.wire import tensor_framing

    monkeypatch.setattr(tensor_framing, "MESSAGE_BYTES", 64)
    repository = await open_here(c, None)
    host = plugin_of(a).host
    host.uploads.memory.limit_bytes = 200
    with pytest.raises(PutFailed, match="memory") as caught:
        await make(repository, GRAPH, "first", keep=False)
    assert caught.value.limit_bytes == 200
    assert caught.value.needed_bytes > 200
    assert caught.value.model_id == "first"
    assert host.uploads.memory_bytes == 0
    host.uploads.memory.limit_bytes = 1 << 20
    await make(repository, GRAPH, "second")
    assert host.uploads.memory_bytes == 0
    assert (await repository.verify()).clean


class Kept(SpillingTensors):
    """Tensors that note their budget."""

    def __init__(self) -> None:
        self.allowed = 150

    def allow(self, nbytes: int) -> None:
        self.allowed = nbytes

    def shrink(self) -> None:
        pass


def test_writers_wait_for_room_that_others_have(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {0: TensorSpec((60,), "uint8")}
    one, other = (0, ModelId("one"), Tick(1, 1)), (0, ModelId("other"), Tick(1, 2))

    async def land(uploads: UploadBuffers, key: Any) -> bool:
        return await uploads.write(*key, spec, [[0, 0, 60]], [bytes(60)])

    async def run() -> None:
        kept = Kept()
        uploads = UploadBuffers(kept, MemoryBudget(kept=150, shared=200, leaving=0))  # 60 bytes, and as much on its way
        assert not await land(uploads, one)
        assert await uploads.reserve(*one, 60, 0)
        assert await land(uploads, one)
        assert not await uploads.reserve(*other, 60, 0)
        assert not await land(uploads, other)
        waiting = asyncio.ensure_future(uploads.reserve(*other, 60, 60))
        assert await land(uploads, one)  # who is at it already waits for nothing
        assert not waiting.done()
        uploads.forget(*one)
        assert await waiting
        assert uploads.memory_bytes == 120
        assert kept.allowed == 80
        uploads.forget_shard(0)
        assert uploads.memory_bytes == 0
        assert kept.allowed == 150
        # More than room was made for.
        assert await uploads.reserve(*one, 59, 0)
        with pytest.raises(CorruptRecord, match="made room for"):
            await land(uploads, one)
        # Nobody gives room back: the writer is told.
        assert await uploads.reserve(*one, 60, 0)
        monkeypatch.setattr(upload_buffer, "STALLED_S", 0.0)
        with pytest.raises(ProviderFull, match="'other'") as caught:
            await uploads.reserve(*other, 60, 60)
        assert (caught.value.needed_bytes, caught.value.free_bytes, caught.value.limit_bytes) == (120, 80, 200)
        # Who has sent nothing for long has died.
        assert await land(uploads, one)
        monkeypatch.setattr(transfer_memory, "FORGOTTEN_AFTER_S", 0.0)
        assert await uploads.reserve(*other, 60, 0)
        assert uploads.of(*one) is None

    asyncio.run(run())


@evo_cluster()
async def test_writers_whose_puts_don_t_fit_together_go_one_after_the_other(
    c: Any, s: Any, a: Any, t: Any, monkeypatch: Any
) -> None:
    """In the proportions of two puts of 300 MB at a provider of 1 GB, which waited for each other's room in vain."""
    monkeypatch.setattr(tensor_framing, "MESSAGE_BYTES", 50)
    repository = await open_here(c, None)
    host = plugin_of(a).host
    nbytes = sum(key.spec.nbytes for key in GRAPH.tensors)
    host.uploads.memory.limit_bytes = int(1.6 * nbytes)
    names = [f"m{number}" for number in range(4)]
    made = [await reserve(repository, GRAPH, name, ancestor=False) for name in names]
    await asyncio.gather(*(put_reserved(repository, GRAPH, one, seed=n) for n, one in enumerate(made)))
    assert host.uploads.memory_bytes == 0
    assert sorted(one.model_id for one in await repository.models()) == names
    assert (await repository.verify()).clean


@evo_cluster()
async def test_a_model_larger_than_the_budget_comes_in_messages_and_is_spilled(
    c: Any, s: Any, a: Any, t: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = await open_here(c, None, memory=100)
    nbytes = sum(key.spec.nbytes for key in GRAPH.tensors)
    assert nbytes > 100
    await make(repository, GRAPH, "first")
    stats = await repository.stats()
    assert stats["payload_bytes"] == nbytes
    assert (await repository.verify()).clean


def test_all_that_a_provider_holds_stays_below_where_dask_pauses_it() -> None:
    settings = RepositorySettings("key", None, 8, "written", 1000, "test", {})
    unset = replace(settings, memory=None)
    for limit in (10**8, 5 * 10**8, 10**9, 4 * 10**9, 10**11):
        for share in (0.3, 0.8, False):
            for process in (0, 3 * 10**8):
                budget = unset.budget(limit, share, process)
                most = limit * (share or 0.9) - max(process, PROCESS_BYTES)
                assert sum(budget) - budget.kept <= max(most, 0)
                assert 0 <= budget.kept <= min(budget.shared, 0.3 * limit)
    # A put of 300 MB, and two messages of it, at a provider of 1 GB.
    assert unset.budget(10**9, 0.8).shared > 3e8 + 2 * tensor_framing.MESSAGE_BYTES
    assert settings.budget(10**9, 0.8).kept == 1000
    assert settings.budget(None, 0.8).shared == MEMORY_LIMIT // 2 - PROCESS_BYTES - MOST_LEAVING_BYTES
    with pytest.raises(InvalidInput, match="pauses a worker of 1000000000 bytes at 800000000"):
        replace(settings, memory=0.6).budget(10**9, 0.8)
