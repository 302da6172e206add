"""What strategies that keep models have in common: those that they no longer need leave, each named once."""

from __future__ import annotations

from daskevo.types import ModelId


class Leaving:
    """The part of a strategy that lets models go; it gives up no request. `start` sets `_left`."""

    _left: list[ModelId]

    def leave(self) -> list[ModelId]:
        left, self._left = self._left, []
        return left

    def stop(self) -> list[int]:
        return []
