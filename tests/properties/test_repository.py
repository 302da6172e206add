"""The whole repository on a cluster in this process, against a model that recounts everything.

A program puts, inherits, keeps reservations open, holds, releases and retires, while providers are closed and others
come; in its second part another cluster has the same root open.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Worker
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daskevo.client.reservations import give_back
from daskevo.errors import DaskevoError, ModelRetired
from daskevo.protocol.references import References
from daskevo.protocol.shard import Shard
from tests.cluster.helpers import (
    at_rest,
    chain,
    coordinator_of,
    evo_cluster,
    open_here,
    plugins_of,
    put_reserved,
    reserve,
    values,
)

GRAPHS = [chain(8, 6, 3), chain(8, 6, 4), chain(8, 5, 3)]
LABELS = ["user:a", "best:r"]

Step = tuple[Any, ...]
STEPS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(GRAPHS), st.booleans()),
    st.tuples(st.just("put"), st.sampled_from(GRAPHS), st.booleans()),
    st.tuples(st.just("reserve"), st.sampled_from(GRAPHS)),
    st.tuples(st.just("finish"), st.booleans(), st.booleans()),
    st.tuples(st.just("hold"), st.integers(0, 9), st.sampled_from(LABELS)),
    st.tuples(st.just("release"), st.integers(0, 9), st.sampled_from(LABELS)),
    st.tuples(st.just("retire"), st.integers(0, 9)),
    st.tuples(st.just("end label"), st.sampled_from(LABELS)),
    st.tuples(st.just("replace a provider"), st.integers(0, 1)),
    st.tuples(st.just("replace both")),
)
PARTS = st.tuples(st.lists(STEPS, min_size=4, max_size=14), st.lists(STEPS, max_size=6))


class Books:
    """What the repository must hold, by what was done alone."""

    def __init__(self) -> None:
        self.count = 0
        self.graphs: dict[str, Any] = {}
        self.values: dict[str, dict[int, Any]] = {}
        self.labels: dict[str, set[str]] = {}
        self.uses: dict[str, set[tuple[str, int]]] = {}
        """Model -> (owner, number) of its tensors."""
        self.reserved: dict[str, tuple[Any, Any]] = {}
        """Model -> its reservation and graph, while nothing has become of it."""

    def published(self) -> list[str]:
        return [name for name, labels in self.labels.items() if labels]

    def stored(self) -> set[tuple[str, int]]:
        """Return each tensor that a published model or a reservation needs."""
        used = {use for name in self.published() for use in self.uses[name]}
        for reservation, _ in self.reserved.values():
            used |= {(entry.owner, entry.number) for entry in reservation.entries.values()}
        return used

    def check_inherited(self, reservation: Any) -> None:
        """Look whether what was inherited is what its owner stored."""
        for number, entry in reservation.entries.items():
            np.testing.assert_array_equal(reservation.arrays[number], self.values[entry.owner][entry.number])


class Player:
    """Does the steps on a cluster, and keeps the books."""

    def __init__(self, books: Books, repository: Any, scheduler: Any, providers: list[Any]) -> None:
        self.books, self.repository, self.scheduler, self.providers = books, repository, scheduler, providers

    async def play(self, step: Step) -> None:
        books, repository = self.books, self.repository
        names = books.published()
        match step:
            case "put", graph, keep:
                name = await self._reserve(graph)
                await self._put(name, keep)
            case "reserve", graph if len(books.reserved) < 2:
                await self._reserve(graph)
            case "finish", put, keep if books.reserved:
                name = next(iter(books.reserved))
                if put:
                    await self._put(name, keep)
                else:
                    reservation, _ = books.reserved.pop(name)
                    session = repository.connection.session
                    await give_back(session, reservation.model_id, reservation.attempt, reservation.owners)
            case "hold", which, label if names:
                await repository.hold(names[which % len(names)], label)
                books.labels[names[which % len(names)]].add(label)
            case "release", which, label if names:
                await repository.release(names[which % len(names)], label)
                books.labels[names[which % len(names)]].discard(label)
            case "retire", which if names:
                await repository.retire(names[which % len(names)])
                books.labels[names[which % len(names)]].clear()
            case "end label", label:
                await repository.release_label(label)
                for labels in books.labels.values():
                    labels.discard(label)
            case "replace a provider", which:
                await self._replace([self.providers[which]])
            case ("replace both",):
                await self._replace(list(self.providers))

    async def check(self) -> None:
        """Recount everything."""
        books, repository = self.books, self.repository
        await repository.connection.session.outbox.sent()
        await at_rest(self.scheduler, *self.providers)
        verification = await repository.verify()
        assert verification.clean, verification.differences
        assert verification.models == len(books.published())
        stored = books.stored()
        assert verification.tensors == len(stored)
        assert verification.payload_bytes == sum(books.values[owner][number].nbytes for owner, number in stored)
        for name, labels in books.labels.items():
            standing = await repository.status(name)
            assert set(standing.labels) == labels
            if not labels:
                assert standing.state == "retired"
                with pytest.raises(ModelRetired):
                    await repository.read(name)
                continue
            found = await repository.read(name)
            for number, key in enumerate(books.graphs[name].tensors):
                np.testing.assert_array_equal(found[key.layer, key.index], books.values[name][number])

    async def _reserve(self, graph: Any) -> str:
        books = self.books
        name, books.count = f"m{books.count}", books.count + 1
        reservation = await reserve(self.repository, graph, name)
        books.check_inherited(reservation)
        books.reserved[name] = reservation, graph
        return name

    async def _put(self, name: str, keep: bool) -> None:
        books = self.books
        reservation, graph = books.reserved.pop(name)
        seed = len(books.values)
        await put_reserved(self.repository, graph, reservation, seed=seed, keep=keep, labels=["user:a"])
        made = values(graph, seed)
        kept = reservation.entries if keep else {}
        books.values[name] = {**made, **{number: reservation.arrays[number] for number in kept}}
        books.graphs[name], books.labels[name] = graph, {"user:a"}
        books.uses[name] = {
            (kept[number].owner, kept[number].number) if number in kept else (name, number) for number in made
        }

    async def _replace(self, going: list[Any]) -> None:
        for worker in going:
            await worker.close()
            self.providers.remove(worker)
        while len(self.providers) < 2:
            self.providers.append(await Worker(self.scheduler.address, nthreads=2, resources={"provider": 1}))
        # A recount needs all shards at one moment, and says so while some are on their way.
        table = coordinator_of(self.scheduler)._core.table
        while not (all(map(plugins_of, self.providers)) and all(table().places.values())):
            await asyncio.sleep(0.01)


def play(parts: tuple[list[Step], ...]) -> None:
    """Play each part on a cluster of its own, on one root."""
    books = Books()
    with tempfile.TemporaryDirectory() as folder:
        for steps in parts:

            @evo_cluster(providers=2, trainers=0)
            async def run(c: Any, s: Any, a: Any, b: Any, *, steps: list[Step] = steps) -> None:
                books.reserved.clear()  # the client that had them is gone
                providers = [a, b]
                player = Player(books, await open_here(c, Path(folder) / "root"), s, providers)
                try:
                    for step in steps:
                        await player.play(step)
                    await player.check()
                finally:
                    for worker in providers:
                        await worker.close()

            run()


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PARTS)
def test_the_repository_is_what_was_recounted(parts: tuple[list[Step], ...]) -> None:
    play(parts)


PROGRAM: tuple[list[Step], ...] = (
    [("put", GRAPHS[0], True), ("put", GRAPHS[1], True), ("reserve", GRAPHS[2]), ("retire", 0), ("replace both",)],
    [("put", GRAPHS[0], True), ("end label", "user:a"), ("put", GRAPHS[0], False)],
)


def test_one_program() -> None:
    play(PROGRAM)


def _tensors_go_with_their_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(References, "_covered", lambda self, segment: self.of(segment[0], segment))


def _nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shard, "_drop", lambda self, owner, claim, numbers: ())


@pytest.mark.parametrize(
    ("leave_out", "retired", "found"),
    [(_tensors_go_with_their_owner, 0, "missing tensor"), (_nothing_is_dropped, 1, "leftover reference")],
)
def test_the_books_miss_a_rule(
    leave_out: Callable[[pytest.MonkeyPatch], None], retired: int, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_out(monkeypatch)
    with pytest.raises((AssertionError, DaskevoError), match=found):
        play(([("put", GRAPHS[0], True), ("put", GRAPHS[1], True), ("retire", retired)],))
