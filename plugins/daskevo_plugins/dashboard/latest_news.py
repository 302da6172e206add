"""The latest news of each search or study, kept by the scheduler for display: bounded, lost with the scheduler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from daskevo_plugins.dashboard.news import Standing


class News(Protocol):
    """What all news have in common; they are frozen dataclasses."""

    @property
    def key(self) -> str:
        """Identifies the search or study."""

    @property
    def client(self) -> str:
        """Dask's id of the client that runs it."""

    @property
    def standing(self) -> Standing: ...

    @property
    def is_over(self) -> bool: ...


N = TypeVar("N", bound=News)


@dataclass(frozen=True)
class Shown(Generic[N]):
    """The latest news of one search or study.

    Parameters
    ----------
    number:
        Sequence number by first appearance, per kind.
    at_s:
        When they came, by the board's clock.
    render:
        Makes the part of the page that only changes with new news.
    """

    news: N
    number: int
    at_s: float
    render: Callable[[N], str]

    @cached_property
    def rendered(self) -> str:
        """That part of the page, rendered once, when it is first viewed."""
        return self.render(self.news)


class LatestNews(Generic[N]):
    """Stores news of one kind for display.

    Parameters
    ----------
    most:
        Maximum number; when it is exceeded, the one that ended longest ago is dropped, or else the one with the oldest
        news.
    render:
        See :class:`Shown`.
    clock:
        Seconds.
    """

    def __init__(self, most: int, render: Callable[[N], str], clock: Callable[[], float]) -> None:
        self._most = most
        self._render = render
        self._clock = clock
        self._shown: dict[str, Shown[N]] = {}
        self._numbers = 0
        self.changes = 0

    def take(self, news: N) -> None:
        """Store news."""
        before = self._shown.get(news.key)
        if before is None:
            self._numbers += 1
        self._put(news, self._numbers if before is None else before.number)
        while len(self._shown) > self._most:
            # Never the news just stored: those of an ended search would go at once where all others still run.
            others = (one for one in self._shown.values() if one.news.key != news.key)
            del self._shown[min(others, key=lambda one: (not one.news.is_over, one.at_s)).news.key]

    def left(self, client: str, **changes: Any) -> None:
        """Mark the searches or studies of a client that has disconnected as gone.

        Parameters
        ----------
        changes:
            Further fields of the news to change.
        """
        # A copy, because `_put` changes the dict.
        for shown in list(self._shown.values()):
            if shown.news.client == client and not shown.news.is_over:
                gone: Any = replace(shown.news, standing="gone", **changes)  # type: ignore[type-var]
                self._put(gone, shown.number)

    def _put(self, news: N, number: int) -> None:
        self._shown[news.key] = Shown(news, number, self._clock(), self._render)
        self.changes += 1

    def all(self) -> list[Shown[N]]:
        """Return all, running ones first, each group with the latest begun first."""
        return sorted(self._shown.values(), key=lambda one: (one.news.is_over, -one.number))

    @property
    def has_running(self) -> bool:
        """Whether any is running, so that more news may come."""
        return any(not shown.news.is_over for shown in self._shown.values())

    def one(self, key: str) -> Shown[N] | None:
        """Return the one with this key, or else the first; None if there is none."""
        return self._shown.get(key) or next(iter(self.all()), None)
