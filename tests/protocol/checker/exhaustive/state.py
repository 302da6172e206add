"""A state of the whole system as a value, and its key: what it looks like with ticks renamed by order."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from daskevo.types import Tick
from tests.protocol.checker.exhaustive.canonical import Values

PENDING = -1
"""Instead of an answer's number: none yet."""

NOWHERE, SCHEDULER, FOLDER = -1, -2, -3
"""Where scripts run that are no shard's provider's: on a machine of their own, with the coordinator, on any machine
that has a shard's folder."""


class Actor(NamedTuple):
    """A script under way; its unanswered calls are the messages under way."""

    number: int
    """Tells the actors of one state apart."""
    name: str
    node: int
    answers: tuple[int, ...]
    """By call: the answer's number of value, or `PENDING`."""
    holder: int = -1
    """Number of value; -1: none."""
    site: int = NOWHERE
    """Shard whose provider runs it."""
    old: bool = False
    """That provider is the shard's old owner."""
    stays: int = 0
    """Bitmap of shards of which it asks the old owner."""
    audits: bool = False
    renews: bool = False


class State(NamedTuple):
    """Everything that what comes next depends on, and what was promised; numbers are those of `Values`."""

    places: tuple[int, ...]
    coordinator: int
    ended: int
    """Holders that the scheduler knows to have ended."""
    actors: tuple[Actor, ...]
    orphans: tuple[int, ...]
    """Messages under way to nobody's use: late, or copies."""
    promises: int
    budget: tuple[int, ...]
    """Faults that may still happen, by kind; last: of all kinds together."""
    disturbed: bool
    """Something went wrong: scripts may fail with cause."""


def key_of(state: State, values: Values) -> bytes:
    """Return 16 bytes that are equal for states that differ in nothing but their ticks (the order kept).

    All that ticks are compared with is their order and generation; actors have no order.
    """
    looks = values.looks
    parts = [*state.places, state.coordinator, state.ended, state.promises, *state.orphans]
    for actor in state.actors:
        parts.append(actor.node)
        parts.extend(answer for answer in actor.answers if answer >= 0)
    ticks: set[Tick] = set()
    for part in parts:
        ticks.update(looks[part][1])
    ranks = {tick: (tick.generation << 20) + place for place, tick in enumerate(sorted(ticks))}

    def seen(number: int) -> tuple[int, ...]:
        skeleton, own = looks[number]
        return (skeleton, *[ranks[tick] for tick in own])

    key = (
        [seen(place) for place in state.places],
        seen(state.coordinator),
        seen(state.ended),
        seen(state.promises),
        sorted(
            (
                seen(actor.node),
                [seen(answer) if answer >= 0 else () for answer in actor.answers],
                actor.holder,
                actor.site,
                actor.old,
                actor.stays,
            )
            for actor in state.actors
        ),
        sorted(map(seen, state.orphans)),
        state.budget,
        state.disturbed,
    )
    return blake2b(repr(key).encode(), digest_size=16).digest()
