"""Base class of strategies that keep models: it collects the models that leave, each once."""

from __future__ import annotations

from daskevo.types import ModelId


class Leaving:
    """Reports models that leave, and cancels no requests. `start` sets `_left`."""

    _left: list[ModelId]

    def leave(self) -> list[ModelId]:
        left, self._left = self._left, []
        return left

    def stop(self) -> list[int]:
        return []
