"""An in-memory repository network for tests of the protocol: shards on journals, actors, faults, and its promises."""

from __future__ import annotations

from tests.protocol.checker.actors import Behaviour
from tests.protocol.checker.promises import BrokenPromise
from tests.protocol.checker.world import World

__all__ = ["Behaviour", "BrokenPromise", "World"]
