"""What is measured, as it runs in tasks on trainers: puts and reads of one model, beside rivals.

Trainer and provider are two processes, as in a search. Tensors are numpy arrays on both sides; a model is a chain of
Dense layers, with kernel and bias of each layer under two consecutive numbers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from benchmarks.shared.timing import undisturbed
from benchmarks.store.rendezvous import Meeting
from benchmarks.store.rivals import Rival, file_rivals, memcpy
from daskevo.client.inherit import Reservation, reserve_best
from daskevo.client.model_reader import read_model
from daskevo.client.put import make_record, put
from daskevo.client.put_payload import prepare
from daskevo.client.put_sender import folder_of_home
from daskevo.client.reservations import give_back
from daskevo.graph import ArchitectureGraph, Edge, LayerRecord, Vertex
from daskevo.repository import Repository
from daskevo.types import ModelId, TensorSpec

OURS = "daskevo"
MEMCPY = "memcpy"

Array = np.ndarray[Any, Any]


class Shape(NamedTuple):
    """A chain of Dense layers.

    Parameters
    ----------
    name:
        As tables show it.
    width:
        Units of each layer.
    layers:
        How many.
    """

    name: str
    width: int
    layers: int

    @property
    def nbytes(self) -> int:
        """Bytes of the model's tensors (float32)."""
        return 4 * self.layers * self.width * (self.width + 1)


class Case(NamedTuple):
    """What is done with a model.

    Parameters
    ----------
    name:
        As tables show it.
    action:
        ``put``, ``read`` or ``inherit`` (a match, and what it reserves and reads).
    share:
        Of the layers: what has changed since it was inherited, or what is read; those at the end, or the beginning.
    """

    name: str
    action: str
    share: float

    def numbers(self, shape: Shape) -> range:
        """Return the tensors concerned."""
        count = 2 * max(1, round(self.share * shape.layers))
        return range(2 * shape.layers - count, 2 * shape.layers) if self.action == "put" else range(count)


@lru_cache(maxsize=4)
def tensors_of(shape: Shape, seed: int) -> dict[int, Array]:
    """Return a model's tensors, read-only as snapshots of variables are."""
    rng = np.random.default_rng(seed)
    found: dict[int, Array] = {}
    for layer in range(shape.layers):
        for index, form in enumerate([(shape.width, shape.width), (shape.width,)]):
            array = rng.random(form, np.float32)
            array.flags.writeable = False
            found[2 * layer + index] = array
    return found


def graph_of(shape: Shape) -> ArchitectureGraph:
    """Return the model's architecture graph."""
    specs = (TensorSpec((shape.width, shape.width), "float32"), TensorSpec((shape.width,), "float32"))
    layers = [LayerRecord("input", {}, ()), *(LayerRecord(f"dense_{n}", {}, specs) for n in range(shape.layers))]
    vertices = [Vertex(0, "input", (), False)]
    vertices += [Vertex(n + 1, f"dense {shape.width}", (Edge(n, 0, "inputs"),), False) for n in range(shape.layers)]
    return ArchitectureGraph(tuple(layers), tuple(vertices), (0,), ((shape.layers, 0),))


@lru_cache(maxsize=2)
def _warm_memory(nbytes: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    memory = np.empty(nbytes, np.uint8)
    memory.fill(1)
    return memory


def rivals_of(shape: Shape, with_keras: bool) -> list[Rival]:
    """Return the rivals that are installed."""
    found = file_rivals()
    if with_keras and find_spec("keras"):
        from benchmarks.store.keras_files import keras_rivals

        found += keras_rivals(shape.width, shape.layers)
    return found


def measure_rival(
    shape: Shape, case: Case, name: str, folder: str, synced: bool, meeting: Meeting, with_keras: bool
) -> tuple[float, float]:
    """Let a rival write or read once; return when it began and ended. What it reads, it has written before."""
    (rival,) = [rival for rival in rivals_of(shape, with_keras) if rival.name == name]
    tensors, numbers = tensors_of(shape, 0), case.numbers(shape)
    own = Path(folder) / f"{name.strip('.').replace(' ', '-')}-{os.getpid()}"
    if case.action != "put":
        if not own.exists():
            own.mkdir()
            rival.write(own, tensors, False)
        with undisturbed():
            began = meeting.wait()
            rival.read(own, numbers)
            return began, time.monotonic()
    # Only single files per tensor can be left as they are where nothing has changed.
    changed = {number: tensors[number] for number in numbers} if rival.name == "raw files" else tensors
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(own)
    own.mkdir()
    try:
        with undisturbed():
            began = meeting.wait()
            rival.write(own, changed, synced)
            return began, time.monotonic()
    finally:
        shutil.rmtree(own)


def measure_memcpy(shape: Shape, meeting: Meeting) -> tuple[float, float]:
    """Copy the model once to memory that is there; return when it began and ended."""
    memory = _warm_memory(shape.nbytes)
    tensors = tensors_of(shape, 0)
    with undisturbed():
        began = meeting.wait()
        memcpy(tensors, memory)
        return began, time.monotonic()


def put_base(repository: Repository, shape: Shape, name: str, seed: int = 0) -> str:
    """Put the model that others inherit from; return its id."""
    ours = _Ours(repository, shape)
    ours.run(ours.put_base, ModelId(name), tensors_of(shape, seed))
    return name


def measure_ours(repository: Repository, shape: Shape, case: Case, base: str, meeting: Meeting) -> tuple[float, float]:
    """Put or read once through the repository; return when it began and ended. `base` was put before."""
    ours = _Ours(repository, shape)
    steps = {"put": ours.measure_put, "read": ours.measure_read, "inherit": ours.measure_inherit}
    with undisturbed():
        return ours.run(steps[case.action], ModelId(base), case, meeting)  # type: ignore[no-any-return]


class _Ours:
    """What is measured, on the worker's event loop, as the repository's own calls do it for Keras models."""

    def __init__(self, repository: Repository, shape: Shape) -> None:
        self.repository = repository
        self.connection = repository.connection
        self.session = self.connection.session
        self.caller = self.connection.caller()
        self.shape = shape
        self.graph = graph_of(shape)

    def run(self, step: Callable[..., Any], *arguments: Any) -> Any:
        return self.connection.run(step, *arguments)

    async def put_base(self, name: ModelId, tensors: dict[int, Array]) -> None:
        await self._put(await self._reserve(name, False), tensors)

    async def measure_put(self, base: ModelId, case: Case, meeting: Meeting) -> tuple[float, float]:
        fresh = await asyncio.to_thread(tensors_of, self.shape, 1)
        child = await self._reserve(_new_id(), base)
        tensors = {**child.arrays, **{number: fresh[number] for number in case.numbers(self.shape)}}
        began = await asyncio.to_thread(meeting.wait)
        await self._put(child, tensors)
        ended = time.monotonic()
        await self.session.retire(child.model_id)
        return began, ended

    async def measure_read(self, base: ModelId, case: Case, meeting: Meeting) -> tuple[float, float]:
        record = await self.session.open(base)
        began = await asyncio.to_thread(meeting.wait)
        await read_model(self.session, self.caller, record, case.numbers(self.shape))
        return began, time.monotonic()

    async def measure_inherit(self, base: ModelId, case: Case, meeting: Meeting) -> tuple[float, float]:
        began = await asyncio.to_thread(meeting.wait)
        child = await self._reserve(_new_id(), None)
        ended = time.monotonic()
        await give_back(self.session, child.model_id, child.attempt, child.owners)
        return began, ended

    async def _reserve(self, name: ModelId, ancestor: ModelId | Literal[False] | None) -> Reservation:
        return await reserve_best(
            self.session, self.caller, name, self.graph, self.repository.scope, ancestor=ancestor, check_id=True
        )

    async def _put(self, child: Reservation, tensors: dict[int, Array]) -> None:
        folder = await folder_of_home(self.session, child.model_id)
        payload, created = await asyncio.gather(
            asyncio.to_thread(prepare, child, tensors, 1, folder), self.session.tick()
        )
        record = make_record(
            child,
            payload,
            self.graph,
            created,
            scope=self.repository.scope,
            objective=None,
            metrics={},
            step=1,
            parent=None,
            extra=None,
        )
        await put(self.session, child, record, payload, ["population:bench"])


def _new_id() -> ModelId:
    return ModelId(f"m-{uuid.uuid4().hex[:16]}")
