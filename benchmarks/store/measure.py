"""`python -m benchmarks.store`: puts and reads of models through a repository, beside files of others and memcpy.

A cluster of one provider and some trainers, as in a search, on this machine. Trainers put and read models of random
tensors in tasks, and write and read the rivals' files in the same processes, in turn with each other, so that a drift
of the machine meets all of them. Bandwidth is always the model's size by the time, as in the paper's Figure 4, also
where less than the model was written.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from distributed import Client

import daskevo
from benchmarks.shared.outcome import Outcome
from benchmarks.shared.settle import LITTLE_BYTES, settle
from benchmarks.shared.timing import median, quantile
from benchmarks.store.rendezvous import Meeting
from benchmarks.store.store_tables import Row, draw, tables
from benchmarks.store.tasks import (
    MEMCPY,
    OURS,
    Case,
    Shape,
    graph_of,
    measure_memcpy,
    measure_ours,
    measure_rival,
    put_base,
    rivals_of,
)
from daskevo.client.best_match import Question, best_matches
from daskevo.types import JSON
from daskevo_workflows.measurements.machine import machine_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LARGE = Shape("400 MB", 1024, 100)
SMALL = Shape("small", 64, 24)
TOY = Shape("toy", 16, 8)
BIG = Shape("1 GiB", 2048, 64)
SPILLING_BYTES = 256 << 20
PUTS = tuple(Case(f"put, {percent} % changed", "put", percent / 100) for percent in (100, 75, 50, 25))
READS = (Case("read all", "read", 1.0), Case("read half", "read", 0.5), Case("read 1 layer", "read", 0.0))
INHERIT = Case("inherit all", "inherit", 1.0)
SLOW = frozenset({".weights.h5", ".keras"})
"""Rivals that serialise in Python: measured once after a first try."""
ALONE = SLOW | {"h5py"}
"""Rivals that are measured by one writer only."""


class Plan(NamedTuple):
    """How much is measured."""

    shapes: tuple[Shape, ...]
    writers: int
    repeat: int
    repeat_together: int
    """Of several writers at a time: each meets the others, and what else the machine does, another way."""
    with_keras: bool
    loop: Shape
    loop_memory_bytes: int


FULL = Plan((LARGE, SMALL), 4, 3, 7, True, BIG, SPILLING_BYTES)
QUICK = Plan((TOY,), 2, 1, 1, False, Shape("toy", 256, 8), 1 << 20)


def measure(quick: bool, say: Callable[[str], None]) -> Outcome:
    """Measure; return tables, the list of figures, and a plot.

    Parameters
    ----------
    quick:
        Toy sizes.
    say:
        Takes one line about what is measured now.
    """
    plan = QUICK if quick else FULL
    rows: list[Row] = []
    # The folders go after the cluster, which gives back what it has open there.
    with _places() as places, _cluster(plan) as client:
        for place, folder in places.items():
            say(f"on {place}, {folder}")
            # Where nothing survives the host, fsync has nothing to do.
            for synced in (False, True) if place == "disk" else (False,):
                rows += _Bench(client, plan, place, folder, synced, say).rows()
        say("queries while a model is put that does not fit in memory")
        lags = _query_lags(client, plan)
    value = [_to_json(row, rows) for row in rows]
    value.append(
        {
            "case": f"query during a put of {plan.loop.name} that spills, 99th percentile",
            "writer": OURS,
            "seconds": quantile(lags, 0.99),
            "gb_per_s": None,
            "ratio_to_h5": None,
            "ratio_to_memcpy": None,
        }
    )
    machine = machine_line(("distributed", "numpy", "safetensors", "h5py", "keras"))

    def drawn(figure: Figure) -> None:
        draw(figure, rows)

    return Outcome(machine, tables(rows, lags, plan.loop), value, drawn)


def _to_json(row: Row, rows: Sequence[Row]) -> dict[str, JSON]:
    def of(writer: str) -> float | None:
        return next((other.seconds for other in rows if other.name == row.name and other.writer == writer), None)

    h5, copy = of(".weights.h5") or of("h5py"), of(MEMCPY)
    return {
        "case": row.name,
        "writer": row.writer,
        "seconds": row.seconds,
        "gb_per_s": row.gb_per_s,
        "ratio_to_h5": None if h5 is None else h5 / row.seconds,
        "ratio_to_memcpy": None if copy is None else copy / row.seconds,
    }


@contextmanager
def _cluster(plan: Plan) -> Iterator[Client]:
    # Without a limit: trainers hold several models here, and Dask would pause them for what is the benchmark's own.
    cluster = daskevo.local_cluster(
        trainers=plan.writers, providers=1, threads_per_trainer=1, memory_limit=None, dashboard_address=None
    )
    with cluster, cluster.get_client() as client:
        client.wait_for_workers(plan.writers + 1, timeout=120)
        yield client


@contextmanager
def _places() -> Iterator[dict[str, str]]:
    places = {"disk": tempfile.mkdtemp(prefix="daskevo-bench-")}
    if Path("/dev/shm").is_dir():
        places["tmpfs"] = tempfile.mkdtemp(prefix="daskevo-bench-", dir="/dev/shm")
    try:
        yield places
    finally:
        for folder in places.values():
            shutil.rmtree(folder, ignore_errors=True)


def _is_whole(name: str, case: Case) -> bool:
    """Whether a writer takes the same time for all cases of this action."""
    return name == MEMCPY or name in SLOW or (case.action == "put" and name not in (OURS, "raw files"))


class _Bench:
    """All cases in one folder, with or without fsync."""

    def __init__(
        self, client: Client, plan: Plan, place: str, folder: str, synced: bool, say: Callable[[str], None]
    ) -> None:
        self.client = client
        self.plan = plan
        self.place = place
        self.folder = folder
        self.synced = synced
        self.say = say
        durability: Any = "synced" if synced else "written"
        self.repository = daskevo.open(
            Path(folder) / durability, "bench", client=client, shards=8, durability=durability, timeout_s=120
        )

    def rows(self) -> list[Row]:
        found: list[Row] = []
        for shape in self.plan.shapes:
            bases = [
                self._submit(trainer, put_base, self.repository, shape, f"base-{shape.width}-{trainer}")
                for trainer in range(self.plan.writers)
            ]
            names = [base.result() for base in bases]
            for writers in (1, self.plan.writers):
                cases: list[Case] = [*PUTS] if writers == 1 else [PUTS[0], PUTS[-1]]
                if not self.synced:
                    cases += READS if writers == 1 else READS[:1]
                if not self.synced and writers == 1:
                    cases.append(INHERIT)
                whole: dict[tuple[str, str], float] = {}
                for case in cases:
                    self.say(f"  {shape.name}, {case.name}, {writers} at a time{', fsync' * self.synced}")
                    found += self._case(shape, case, writers, names, whole)
        return found

    def _case(
        self, shape: Shape, case: Case, writers: int, bases: Sequence[str], whole: dict[tuple[str, str], float]
    ) -> list[Row]:
        """Measure all writers in turn, several times; `whole` keeps what needs no measuring again."""
        names = [OURS, MEMCPY]
        if case is not INHERIT:
            names += [rival.name for rival in rivals_of(shape, self.plan.with_keras)]
        if writers > 1:
            names = [name for name in names if name not in ALONE]
        # Who always writes or reads whole models does so once for all cases.
        names = [name for name in names if (name, case.action) not in whole or not _is_whole(name, case)]
        repeat = self.plan.repeat if writers == 1 else self.plan.repeat_together
        if writers == 1 < repeat and shape.nbytes < LITTLE_BYTES:
            repeat *= 5
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(repeat + (repeat > 1)):
            # Who follows whom matters: what one leaves in caches and queues, the next one finds.
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                if name in SLOW and turn > 1:
                    continue
                settled = name != MEMCPY and (turn == 0 or shape.nbytes >= LITTLE_BYTES)
                spans = self._spans(shape, case, writers, name, bases, settled)
                # The first one imports, connects and fills caches.
                if turn or repeat == 1:
                    seconds[name].append(max(end for _, end in spans) - min(begin for begin, _ in spans))
        found = {name: median(times) for name, times in seconds.items()}
        whole.update({(name, case.action): value for name, value in found.items() if _is_whole(name, case)})
        found.update({name: value for (name, action), value in whole.items() if action == case.action})
        return [Row(shape, case.name, self.place, self.synced, writers, name, value) for name, value in found.items()]

    def _spans(
        self, shape: Shape, case: Case, writers: int, name: str, bases: Sequence[str], settled: bool
    ) -> list[tuple[float, float]]:
        """Let writers begin together; return when each began and ended."""
        with Meeting(self.folder) as meeting:
            tasks = [self._task(trainer, name, shape, case, bases, meeting) for trainer in range(writers)]
            meeting.await_ready(writers, lambda: any(task.status == "error" for task in tasks))
            # Only now: what they did to be ready is neither measured nor in the way of what is.
            if settled:
                settle(writers * shape.nbytes)
            meeting.begin()
            return self.client.gather(tasks)  # type: ignore[no-any-return]

    def _task(self, trainer: int, name: str, shape: Shape, case: Case, bases: Sequence[str], meeting: Meeting) -> Any:
        if name == OURS:
            return self._submit(trainer, measure_ours, self.repository, shape, case, bases[trainer], meeting)
        if name == MEMCPY:
            return self._submit(trainer, measure_memcpy, shape, meeting)
        arguments = (shape, case, name, self.folder, self.synced, meeting, self.plan.with_keras)
        return self._submit(trainer, measure_rival, *arguments)

    def _submit(self, trainer: int, function: Callable[..., Any], *arguments: Any) -> Any:
        return _submit(self.client, trainer, function, *arguments)


def _submit(client: Client, trainer: int, function: Callable[..., Any], *arguments: Any) -> Any:
    return client.submit(function, *arguments, workers=[f"trainer-{trainer}"], resources={"evaluation": 1}, pure=False)


def _query_lags(client: Client, plan: Plan) -> list[float]:
    """Return how long each query took while a model was put into memory that does not hold it."""
    repository = daskevo.open(None, "bench", client=client, shards=8, memory=plan.loop_memory_bytes, timeout_s=120)
    session = repository.connection.session
    question = Question.of(graph_of(TOY))
    _submit(client, 0, put_base, repository, TOY, "asked-for").result()
    putting = _submit(client, 0, put_base, repository, plan.loop, "large")

    async def ask() -> float:
        started = time.perf_counter()
        await best_matches(session.directory, repository.scope, [question], timeout_s=60)
        took = time.perf_counter() - started
        await asyncio.sleep(0.002)
        return took

    lags: list[float] = []
    while not putting.done() or len(lags) < 10:
        lags.append(client.sync(ask))
    putting.result()
    return lags
