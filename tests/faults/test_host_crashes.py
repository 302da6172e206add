"""`synced` survives the host: images of what its crash may leave of a put, a retirement, an opening, a compaction."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from daskevo.client.session import Session
from daskevo.errors import RepositoryError
from daskevo.offline.root import OfflineTransport
from daskevo.protocol.hashing import shard_of
from daskevo.protocol.messages import Put, Refer, Retire
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.owner_map import OwnerEntry, OwnerMap
from daskevo.protocol.replies import Verdict
from daskevo.provider.handlers import ProviderHandlers
from daskevo.provider.host import ShardHost
from daskevo.provider.maintenance import audit
from daskevo.provider.put_receiver import Brought
from daskevo.store.digests import digests
from daskevo.store.files import Durability, create_file
from daskevo.store.lease import Holder, Lease, take_lease
from daskevo.store.root import Root
from daskevo.store.tiers import DurableTensors
from daskevo.types import Attempt, ModelId, TensorSpec, Tick
from tests.cluster.helpers import chain, values
from tests.faults.crash_images import Killed, Recorder, Rest, image

SHARDS = 2
GRAPH = chain(6, 5)
ANCESTORS = {"c": "a", "d": "c"}
INHERITED = (0, 2)


def _expected() -> dict[str, dict[int, Any]]:
    found = {model: values(GRAPH, ord(model)) for model in "abcde"}
    for child, ancestor in ANCESTORS.items():
        found[child].update({number: found[ancestor][number] for number in INHERITED})
    return found


EXPECTED = _expected()


class Answered(NamedTuple):
    """What somebody was told, after so many steps of the disk."""

    steps: int
    what: str
    model: str


class Job:
    """One opening of the root, as a cluster of one provider: its host, and puts as a trainer beside it makes them."""

    def __init__(
        self,
        base: Path,
        answered: Callable[[str, str], None] = lambda what, model: None,
        durability: Durability = "synced",
    ) -> None:
        self.base = base
        self.answered = answered
        self.durability = durability

    async def __aenter__(self) -> Job:
        self.root = await asyncio.to_thread(
            Root.create, self.base / "deep" / "root", shards=SHARDS, durability=self.durability
        )
        self.lease: Lease = await asyncio.to_thread(
            take_lease, self.root, Holder("s", "here", "j"), lambda holder: None
        )
        self.generation = self.lease.generation
        transport = OfflineTransport(self.root, self.generation, all_over=False)
        tensors = DurableTensors(self._locate, 1 << 20, sync=self.durability == "synced")
        self.host = ShardHost("here", self.root, tensors, Session(transport, 20))
        transport.host = self.host
        found = await self.host.open_shards(range(SHARDS), self.generation, [])
        assert not found["failed"], found
        await asyncio.to_thread(self.root.mark_served)
        await audit(self.host)
        await self.host.at_rest(20)
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self.host.close()
        await asyncio.to_thread(self.lease.release)

    def _locate(self, model_id: ModelId, attempt: Attempt) -> Path:
        return self.root.shard(shard_of(model_id, SHARDS)).segment_path(model_id, attempt)

    async def put(self, model: str, *, in_file: bool = True) -> None:
        """Inherit from the model's ancestor, if it has one, and put."""
        model_id, attempt = ModelId(model), Tick(self.generation, ord(model))
        tensors, ancestor = EXPECTED[model], ANCESTORS.get(model)
        inherited: dict[int, OwnerEntry] = {}
        if ancestor is not None:
            (above,) = [record for record in self.published() if record.model_id == ancestor]
            inherited = {number: above.owner_map.entries[number] for number in INHERITED}
            for owner in {entry.owner for entry in inherited.values()}:
                numbers = frozenset(entry.number for entry in inherited.values() if entry.owner == owner)
                refer = Refer(owner, model_id, attempt, numbers)
                await ProviderHandlers(self.host).refer(shard_of(owner, SHARDS), refer.to_wire())
        own = {number: array for number, array in tensors.items() if number not in inherited}
        found = digests(own)
        entries = [inherited.get(number) or OwnerEntry(model_id, number, found[number], 1) for number in tensors]
        specs = {number: TensorSpec.of(array) for number, array in own.items()}
        record = ModelRecord(
            model_id, attempt, "test", GRAPH.text, OwnerMap(tuple(entries)), specs, attempt, None, None, {}, 1, None,
            None if ancestor is None else ModelId(ancestor), None,
        )  # fmt: skip
        served = self.host.shards[shard_of(model_id, SHARDS)]
        if in_file:
            await asyncio.to_thread(self.root.shard(served.number).write_segment, model_id, attempt, own, None, found)
        reply = await served.put(Put(record, {"user:kept": attempt}), Brought(None if in_file else own))
        assert isinstance(reply, Verdict)
        assert reply.state == "published"
        self.answered("stored", model)

    async def retire(self, model: str) -> None:
        """Retire a model; it is answered before the bits at other owners are dropped."""
        self.answered("retiring", model)
        served = self.host.shards[shard_of(ModelId(model), SHARDS)]
        await served.ask([Retire(ModelId(model), Tick(self.generation, 10_000))])
        self.answered("retired", model)
        await self.host.at_rest(20)

    def published(self) -> list[ModelRecord]:
        return [
            model.record
            for served in self.host.shards.values()
            for model in served.shard.state.models.values()
            if model.state == "published"
        ]

    async def tensors(self, record: ModelRecord) -> dict[int, Any]:
        """Read a model through its owner map."""
        found = {}
        for number, entry in enumerate(record.owner_map.entries):
            served = self.host.shards[shard_of(entry.owner, SHARDS)]
            attempt = served.shard.state.references.published[entry.owner]
            found[number] = (await served.read(entry.owner, attempt, frozenset([entry.number])))[entry.number]
        return found


async def _work(base: Path, answered: Callable[[str, str], None], durability: Durability = "synced") -> None:
    async with Job(base, answered, durability) as job:
        await job.put("a")
        await job.put("b", in_file=False)
        await job.put("c")
        await job.retire("a")
    # What is there is the head of new journals from here on, and the old ones go.
    async with Job(base, answered, durability) as job:
        await job.put("d")
        await job.retire("b")


async def _check(base: Path, answers: list[Answered]) -> None:
    """Open what a crash left, and hold it against what had been answered before."""
    told = {what: {ModelId(answer.model) for answer in answers if answer.what == what} for what in TOLD}
    async with Job(base) as job:
        published = {record.model_id: record for record in job.published()}
        assert told["stored"] - told["retiring"] <= published.keys(), "a stored model is gone"
        assert not told["retired"] & published.keys(), "a retired model is back"
        for model_id, record in published.items():
            for number, array in (await job.tensors(record)).items():
                assert np.array_equal(array, EXPECTED[model_id][number]), "a model is not what was put"
        for served in job.host.shards.values():
            files = {(file.model_id, file.attempt) for file in job.root.shard(served.number).segments()}
            assert files == served.shard.state.references.alive.keys(), "the books are wrong"


TOLD = ("stored", "retiring", "retired")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: what fsync promises is for the recorder to say."""
    if not Path("/dev/shm").is_dir():
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="daskevo-test-") as folder:
        yield Path(folder)


def _recorded(place: Path, left_out: Callable[[Path], bool] = lambda path: False) -> tuple[Recorder, list[Answered]]:
    (place / "live").mkdir()
    recorder = Recorder(place / "live", left_out)
    answers: list[Answered] = []

    def answered(what: str, model: str) -> None:
        answers.append(Answered(len(recorder.steps), what, model))

    with recorder.recording():
        asyncio.run(_work(place / "live", answered))
    return recorder, answers


def _crash(recorder: Recorder, count: int, answers: list[Answered], place: Path, rest: Rest, seed: int) -> None:
    """Let the host crash after so many steps, and check what is left."""
    image(recorder.steps[:count], place / "image", rest, random.Random(seed))
    try:
        asyncio.run(_check(place / "image", [answer for answer in answers if answer.steps <= count]))
    except BaseException as error:
        error.add_note(f"after step {count} of {len(recorder.steps)}, {rest}, seed {seed}: {recorder.steps[count - 1]}")
        raise
    finally:
        shutil.rmtree(place / "image")


def test_the_host_crashes_at_any_step(place: Path) -> None:
    recorder, answers = _recorded(place)
    assert [(answer.what, answer.model) for answer in answers if answer.what != "retiring"] == [
        ("stored", "a"), ("stored", "b"), ("stored", "c"), ("retired", "a"), ("stored", "d"), ("retired", "b"),
    ]  # fmt: skip
    told = {answer.steps for answer in answers}
    for count in range(len(recorder.steps) + 1):
        # What is safe changes with an fsync only.
        if count in told or (count and recorder.steps[count - 1].kind == "sync"):
            _crash(recorder, count, answers, place, "lost", count)
        if count % 2:
            _crash(recorder, count, answers, place, "mixed", count)


@pytest.mark.parametrize("durability", ["volatile", "written"])
def test_nothing_waits_for_the_disk_that_was_not_asked_to(place: Path, durability: Durability) -> None:
    (place / "live").mkdir()
    recorder = Recorder(place / "live")
    with recorder.recording():
        asyncio.run(_work(place / "live", lambda what, model: None, durability))
    assert len(recorder.steps) > 80
    assert not [step for step in recorder.steps if step.kind == "sync"]


LEFT_OUT = {
    "the folder above the root's parent": ".",
    "the root's parent": "deep",
    "the root": "deep/root",
    "the folder of the shards": "deep/root/shards",
    "a shard's folder": "deep/root/shards/???",
    "the folder of the segments": "deep/root/shards/???/segments",
    "a segment": "*/segments/*.tmp",
    "a journal": "*/journal.*",
    "repository.json": "*/repository.json.*",
    "served.json": "*/root/served.json.*",
    "the lease": "*/generation.*",
}


@pytest.mark.parametrize("what", LEFT_OUT)
def test_an_fsync_that_is_left_out_is_found(place: Path, what: str) -> None:
    def is_left_out(path: Path) -> bool:
        return fnmatch(str(path.relative_to(place / "live")), LEFT_OUT[what])

    recorder, answers = _recorded(place, is_left_out)

    def crash_at_any_step() -> None:
        for count in range(len(recorder.steps), 0, -1):
            _crash(recorder, count, answers, place, "lost", count)

    with pytest.raises((AssertionError, RepositoryError)):
        crash_at_any_step()


MAKERS: dict[str, Callable[[Path], object]] = {
    "a root": lambda base: Root.create(base / "deep" / "root", durability="synced"),
    "a file": lambda base: create_file(base / "file", b"content", sync=True),
}


@pytest.mark.parametrize("what", MAKERS)
def test_what_was_being_made_when_its_maker_was_killed_is_made_safe_by_the_next(place: Path, what: str) -> None:
    for dies_at in range(20):
        live = place / f"live-{dies_at}"
        live.mkdir()
        recorder = Recorder(live)
        with recorder.recording():
            recorder.dies_at = dies_at
            with suppress(Killed):
                MAKERS[what](live)
            recorder.dies_at = None
            MAKERS[what](live)
        image(recorder.steps, place / "image", "lost", random.Random(0))
        if what == "a root":
            root = Root.open(place / "image" / "deep" / "root")
            root.check_sight(root.repository_id)
        else:
            assert (place / "image" / "file").read_bytes() == b"content"
        shutil.rmtree(place / "image")


@pytest.mark.parametrize("start", [1, 2, 3])
def test_a_process_is_killed_then_another_goes_on_then_the_host_crashes(place: Path, start: int) -> None:
    """What the first one left visible but not safe, the second one relies on: it makes it safe."""
    for dies_at in range(start, 100, 9):
        live = place / f"live-{dies_at}"
        live.mkdir()
        recorder = Recorder(live)
        answers: list[Answered] = []

        def answered(what: str, model: str, recorder: Recorder = recorder, answers: Any = answers) -> None:
            answers.append(Answered(len(recorder.steps), what, model))

        async def go_on(live: Path = live, answered: Any = answered) -> None:
            async with Job(live, answered) as job:
                await job.put("e")

        with recorder.recording():
            recorder.dies_at = dies_at
            with suppress(Killed):
                asyncio.run(_work(live, answered))
            recorder.dies_at = None
            asyncio.run(go_on())
        assert ("stored", "e") in [(answer.what, answer.model) for answer in answers]
        for rest in ("lost", "mixed"):
            _crash(recorder, len(recorder.steps), answers, place, rest, dies_at)
