"""An in-memory repository network for tests of the protocol: shards on journals, actors, faults, and its promises."""

from __future__ import annotations

from daskevo.testing.ownership.actors import Behaviour
from daskevo.testing.ownership.promises import BrokenPromise
from daskevo.testing.ownership.world import World

__all__ = ["Behaviour", "BrokenPromise", "World"]
