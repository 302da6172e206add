"""Where the time of an inheritance goes."""

from __future__ import annotations

from time import perf_counter


class timed:
    """Add the seconds of a block to `timings[name]`."""

    def __init__(self, timings: dict[str, float], name: str) -> None:
        self._timings, self._name = timings, name

    def __enter__(self) -> None:
        self._started = perf_counter()

    def __exit__(self, *error: object) -> None:
        self._timings[self._name] = self._timings.get(self._name, 0.0) + perf_counter() - self._started
