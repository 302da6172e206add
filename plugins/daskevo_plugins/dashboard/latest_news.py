"""The last news of each of a kind, as a scheduler keeps them to be shown: bounded, until the scheduler goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

from daskevo_plugins.dashboard.news import Standing


class News(Protocol):
    """What is common to all news; they are frozen dataclasses."""

    @property
    def key(self) -> str:
        """Tells it apart from all others."""

    @property
    def client(self) -> str:
        """Dask's id of the client whose process leads it."""

    @property
    def standing(self) -> Standing: ...

    @property
    def is_over(self) -> bool: ...


N = TypeVar("N", bound=News)


@dataclass(frozen=True)
class Shown(Generic[N]):
    """Last news.

    Parameters
    ----------
    number:
        Of its kind in the order in which they were first heard of.
    at_s:
        When they came, by the board's clock.
    render:
        Makes the page's part that does not change until there are others.
    """

    news: N
    number: int
    at_s: float
    render: Callable[[N], str]

    @cached_property
    def rendered(self) -> str:
        """That part, made when it is first looked at, and once."""
        return self.render(self.news)


class Shelf(Generic[N]):
    """Takes in news of one kind and gives out what there is to show.

    Parameters
    ----------
    most:
        So many are kept; then the one that has been over for longest goes, else the one with the oldest news.
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
        """Take in news."""
        before = self._shown.get(news.key)
        if before is None:
            self._numbers += 1
        self._put(news, self._numbers if before is None else before.number)
        while len(self._shown) > self._most:
            others = (one for one in self._shown.values() if one.news.key != news.key)
            del self._shown[min(others, key=lambda one: (not one.news.is_over, one.at_s)).news.key]

    def left(self, client: str, **changes: Any) -> None:
        """Take in that a client has gone: what its process led is not led any more.

        Parameters
        ----------
        changes:
            Of the news, beside how it stands.
        """
        for shown in list(self._shown.values()):
            if shown.news.client == client and not shown.news.is_over:
                gone: Any = replace(shown.news, standing="gone", **changes)  # type: ignore[type-var]
                self._put(gone, shown.number)

    def _put(self, news: N, number: int) -> None:
        self._shown[news.key] = Shown(news, number, self._clock(), self._render)
        self.changes += 1

    def all(self) -> list[Shown[N]]:
        """Return all, those that are running first, the latest begun of each first."""
        return sorted(self._shown.values(), key=lambda one: (one.news.is_over, -one.number))

    @property
    def has_running(self) -> bool:
        """Whether there may be more news of one."""
        return any(not shown.news.is_over for shown in self._shown.values())

    def one(self, key: str) -> Shown[N] | None:
        """Return the one of that name, else the first; None: there is none."""
        return self._shown.get(key) or next(iter(self.all()), None)
