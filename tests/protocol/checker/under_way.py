"""What is under way in a `World`: scripts, messages, answers, and what can happen next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from daskevo.protocol.coordinator import Coordinator
from daskevo.protocol.holders import Holder
from tests.protocol.checker.actors import Call, Run
from tests.protocol.checker.servers import Server

Answer = object
"""What an actor gets back: a shard's Reply, what the coordinator returned, or None for no answer in time."""


@dataclass
class Actor:
    """A script under way: what it waits for, and what has come in."""

    name: str
    script: Run
    holder: Holder | None
    coordinator: Coordinator
    """The one that was there when it began."""
    server: Server | None
    """The opening of a shard whose provider it is part of."""
    waiting: dict[int, int] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)
    resting: bool = False
    done: bool = False
    outcome: str | None = None
    stays_with: dict[int, Server] = field(default_factory=dict)
    """Shards of which it asks the old owner, as long as that answers."""
    disturbed: bool = False
    """Something went wrong around it: it may fail with cause."""


@dataclass(frozen=True)
class Request:
    """A message under way, and whose answer slot waits for it."""

    call: Call
    actor: Actor
    place: int
    """Shard number; -1 is the coordinator."""


@dataclass(frozen=True)
class Response:
    """An answer under way."""

    request: int
    actor: Actor
    answer: Answer


@dataclass(frozen=True)
class Action:
    """Something that can happen next."""

    kind: str
    words: str
    run: Callable[[], object]
