"""Explore schedules: every single fault at every moment of a scenario, and random mixtures of faults and orders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

from daskevo.errors import DaskevoError
from daskevo.types import ModelId
from tests.protocol.checker import actors
from tests.protocol.checker.under_way import Action, Actor
from tests.protocol.checker.world import World

Scenario = Callable[[World], None]
MakeWorld = Callable[[], World]
Chooser = Callable[[World, int], Action | None]

A, B, C, D = (ModelId(name) for name in "abcd")
"""With two shards, `a` and `b` have their home on shard 0, `c` and `d` on shard 1."""


@dataclass(frozen=True)
class Finding:
    """A schedule under which a promise broke."""

    scenario: str
    schedule: tuple[str, ...]
    error: Exception

    def __str__(self) -> str:
        return f"{self.scenario}: {self.error!r}\n  " + "\n  ".join(self.schedule)


def _put(
    world: World,
    model: ModelId,
    ancestor: ModelId | None = None,
    fallback: ModelId | None = None,
    labels: tuple[str, ...] = ("user:a",),
    *,
    left: Literal["", "reserving", "putting"] = "",
) -> Actor:
    holder = world.new_holder(f"{model}-{len(world.actors)}")
    script = actors.put(holder, model, ancestor, fallback, labels, left=left)
    return world.spawn(f"put {model}", script, holder)


def _stored(world: World, *models: tuple[ModelId, ModelId | None]) -> None:
    for model, ancestor in models:
        _put(world, model, ancestor)
        world.settle_down()


def inherit_while_retired(world: World) -> None:
    """A child and a reader take from a model that is released meanwhile."""
    _stored(world, (A, None))
    _put(world, C, A)
    holder = world.new_holder("reader")
    world.spawn("read a", actors.read(holder, A), holder)
    world.spawn("release a", actors.release(A, "user:a"))


def lineage(world: World) -> None:
    """A grandchild takes from a child and from a grandparent that is retired already."""
    _stored(world, (A, None), (C, A))
    world.spawn("release a", actors.release(A, "user:a"))
    world.settle_down()
    _put(world, B, C)
    _put(world, D, C)
    world.spawn("release c", actors.release(C, "user:a"))


def parent_and_child(world: World) -> None:
    """A model is put while another takes from it, or from what it takes from, which is released meanwhile."""
    _stored(world, (A, None))
    _put(world, C, A)
    _put(world, B, C, A)
    world.spawn("release a", actors.release(A, "user:a"))


def twice(world: World) -> None:
    """One task runs twice; then the winner is released."""
    _stored(world, (A, None))
    _put(world, C, A)
    _put(world, C, A)
    world.spawn("release a", actors.release(A, "user:a"))


def used_again(world: World) -> None:
    """A retired id is tried again."""
    _stored(world, (A, None), (C, A))
    world.spawn("release c", actors.release(C, "user:a"))
    _put(world, C, A)


def labels(world: World) -> None:
    """Holds and releases of the same labels overtake each other."""
    _stored(world, (A, None))
    world.spawn("hold best", actors.hold(A, "best:r"))
    world.spawn("release best", actors.release(A, "best:r"))
    world.spawn("hold user", actors.hold(A, "user:a"))
    world.spawn("release user", actors.release(A, "user:a"))


def audited(world: World) -> None:
    """The audit runs beside everything else, and an attempt has ended."""
    _stored(world, (A, None), (C, A))
    _put(world, D, A)
    _put(world, B, C)
    world.spawn("release a", actors.release(A, "user:a"))
    world.audit()


def next_best(world: World) -> None:
    """A match goes between look and reservation; the next best shares an owner with it."""
    _stored(world, (A, None), (C, A))
    _put(world, D, C, A)
    world.spawn("release c", actors.release(C, "user:a"))


def ended_goes_on(world: World) -> None:
    """A holder ends while it trains, and its thread goes on to put; what it inherits from is released."""
    _stored(world, (A, None))
    actor = _put(world, C, A)
    world.train(actor)
    assert actor.holder is not None
    world.end_holder(actor.holder)
    world.spawn("release a", actors.release(A, "user:a"))


def given_back(world: World) -> None:
    """A reader gives a model back that is released, while another child looks at it, and takes from it."""
    _stored(world, (A, None), (C, A))
    holder = world.new_holder("reader")
    world.train(world.spawn("read a", actors.read(holder, A), holder))
    _put(world, D, A)
    world.spawn("release a", actors.release(A, "user:a"))


def label_ends(world: World) -> None:
    """A run is deleted: its label goes from all models at once, beside holds and releases of single ones."""
    _stored(world, (A, None))
    _put(world, C, A, labels=("user:a", "best:r"))
    world.settle_down()
    world.spawn("hold best", actors.hold(A, "best:r"))
    world.spawn("end best", actors.release_label("best:r"))
    world.spawn("release user", actors.release(C, "user:a"))


def label_ends_during_put(world: World) -> None:
    """A run is deleted while one of its models is on its way home: trained, and its segment written."""
    _stored(world, (A, None))
    writing = _put(world, C, A, labels=("best:r",))
    world.train(writing)
    world.resume(writing)
    world.train(writing)
    world.spawn("end best", actors.release_label("best:r"))


def left_during_put(world: World) -> None:
    """Whoever waits for a put is interrupted, and leaves the block that gives back; its ancestor is released."""
    _stored(world, (A, None))
    _put(world, C, A, left="putting")
    world.spawn("release a", actors.release(A, "user:a"))


def left_while_reserving(world: World) -> None:
    """Whoever waits for an inherit is interrupted, while its messages are under way; its ancestor is released."""
    _stored(world, (A, None), (C, A))
    _put(world, D, C, left="reserving")
    world.spawn("release a", actors.release(A, "user:a"))


def ended_early(world: World) -> None:
    """A holder ends before its first message arrives, and its thread goes on."""
    _stored(world, (A, None))
    actor = _put(world, C, A)
    assert actor.holder is not None
    world.end_holder(actor.holder)


def restarted(world: World) -> None:
    """The coordinator restarts while a child trains, and its thread goes on to put."""
    _stored(world, (A, None))
    world.train(_put(world, C, A))
    world.restart_coordinator()
    world.spawn("release a", actors.release(A, "user:a"))


def released_after_put(world: World) -> None:
    """A model is put under two labels, and one of them is released as soon as it is stored."""
    holder = world.new_holder("task")
    put = actors.put(holder, A, labels=("user:a", "best:r"))
    world.spawn("put a, release", actors.in_turn(put, actors.release(A, "best:r")), holder)


def audited_in_training(world: World) -> None:
    """The audit runs while a child trains, and while another one has written its segment, but not staged it."""
    _stored(world, (A, None))
    world.train(_put(world, C, A))
    writing = _put(world, D, A)
    world.train(writing)
    world.resume(writing)
    world.train(writing)
    world.spawn("release a", actors.release(A, "user:a"))
    world.audit()


def moved(world: World) -> None:
    """All shards move after a child was put."""
    _stored(world, (A, None))
    world.train(_put(world, C, A))
    for shard in range(world.shards):
        world.spawn(f"move {shard}", actors.move(shard))


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        inherit_while_retired,
        lineage,
        next_best,
        parent_and_child,
        twice,
        used_again,
        ended_early,
        ended_goes_on,
        given_back,
        restarted,
        moved,
        labels,
        label_ends,
        label_ends_during_put,
        left_during_put,
        left_while_reserving,
        released_after_put,
        audited,
        audited_in_training,
    )
}


def single_faults(
    make_world: MakeWorld, scenario: Scenario, start: int = 0, stride: int = 1
) -> Iterator[Finding | None]:
    """Run a scenario once for each fault at each of its steps; yield what each run found.

    With a stride, only every so many-th fault of a step, from a place that moves on with the steps.
    """
    step, choice = 0, start % stride
    while True:
        chooser = _OneFault(step, choice)
        finding = run(make_world, scenario, chooser)
        if chooser.injected:
            choice += stride
            yield finding
        elif chooser.ended:
            # Without any fault: what broke here broke by itself.
            if finding is not None:
                yield finding
            return
        else:
            step += 1
            choice = (start + step) % stride


def random_faults(make_world: MakeWorld, scenario: Scenario, seed: int, faults: int = 3) -> Finding | None:
    """Run a scenario in a random order with up to so many random faults."""
    return run(make_world, scenario, _AtRandom(Random(seed), faults))


def run(make_world: MakeWorld, scenario: Scenario, choose: Chooser, limit: int = 1000) -> Finding | None:
    """Run one schedule to its end, then let everything settle, and look; return what broke."""
    schedule: list[str] = []
    try:
        world = make_world()
        scenario(world)
        for step in range(limit):
            action = choose(world, step)
            if action is None:
                break
            schedule.append(action.words)
            world.act(action)
        schedule.append("everything ends")
        world.finish()
    except (AssertionError, DaskevoError, KeyError) as error:
        return Finding(scenario.__name__, tuple(schedule), error)
    return None


class _OneFault:
    """First causes first, but for one fault at one step."""

    def __init__(self, step: int, choice: int) -> None:
        self.step, self.choice = step, choice
        self.injected = False
        self.ended = True

    def __call__(self, world: World, step: int) -> Action | None:
        actions = world.actions()
        if step == self.step and actions:
            self.ended = False
            faults = world.faults()
            if self.choice >= len(faults):
                return None
            self.injected = True
            return faults[self.choice]
        return actions[0] if actions else None


class _AtRandom:
    """Any order, and faults here and there."""

    def __init__(self, random: Random, faults: int) -> None:
        self.random, self.left = random, random.randint(0, faults)
        self.orderly = random.random() < 0.5

    def __call__(self, world: World, step: int) -> Action | None:
        actions = world.actions()
        if not actions:
            return None
        if self.left and self.random.random() < 0.1:
            self.left -= 1
            # A kind first: single messages would crowd out the rarer faults.
            faults = world.faults()
            kind = self.random.choice(sorted({fault.kind for fault in faults}))
            return self.random.choice([fault for fault in faults if fault.kind == kind])
        if self.orderly and self.random.random() < 0.8:
            return actions[0]
        return self.random.choice(actions)
