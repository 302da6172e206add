"""The studies of a cluster as its scheduler keeps them to be shown: the last news of each, until the scheduler goes."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

from daskevo.tuning.tree_svg import describe, tree_svg
from daskevo.types import JSON
from daskevo_plugins.dashboard.news import StudyNews

MOST_STUDIES = 20
"""So many are kept; then the one that has been over for longest goes, else the one with the oldest news."""
WATCHED_S = 5.0
"""Seconds after somebody looked in which it counts as being watched."""


@dataclass(frozen=True)
class Shown:
    """A study's last news.

    Parameters
    ----------
    number:
        Of studies in the order in which they were first heard of.
    at_s:
        When they came, by the board's clock.
    """

    news: StudyNews
    number: int
    at_s: float

    @cached_property
    def drawing(self) -> str:
        """The tree, drawn when it is first looked at, and once; empty if it is too large."""
        if self.news.tree is None:
            return ""
        return tree_svg(self.news.tree, name="stages", title="The stage tree", quality=self.news.metric)

    @cached_property
    def described(self) -> str:
        """The tree in words."""
        return "" if self.news.tree is None else describe(self.news.tree)


class Board:
    """Takes in news and gives out what there is to show.

    Parameters
    ----------
    clock:
        Seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._shown: dict[str, Shown] = {}
        self._numbers = 0
        self._looked = float("-inf")
        # A page that was opened before the scheduler was started again must not take the new one's for the old one's.
        self._name = uuid.uuid4().hex[:8]
        self._changes = 0

    @property
    def version(self) -> str:
        """Another one after each change."""
        return f"{self._name}-{self._changes}"

    @property
    def is_watched(self) -> bool:
        """Somebody looked just now."""
        return self.clock() - self._looked < WATCHED_S

    def look(self) -> None:
        """Take in that somebody looks."""
        self._looked = self.clock()

    def take(self, message: JSON) -> None:
        """Take in news of a study; raises as :meth:`StudyNews.from_json`, and changes nothing then."""
        news = StudyNews.from_json(message)
        before = self._shown.get(news.study)
        if before is None:
            self._numbers += 1
        self._shown[news.study] = Shown(news, self._numbers if before is None else before.number, self.clock())
        while len(self._shown) > MOST_STUDIES:
            others = (one for one in self._shown.values() if one.news.study != news.study)
            del self._shown[min(others, key=lambda one: (not one.news.is_over, one.at_s)).news.study]
        self._changes += 1

    def left(self, client: str) -> None:
        """Take in that a client has gone: studies of its process are not led any more."""
        for name, shown in self._shown.items():
            if shown.news.client == client and not shown.news.is_over:
                news = replace(shown.news, standing="gone", trainers=())
                self._shown[name] = Shown(news, shown.number, self.clock())
                self._changes += 1

    def studies(self) -> list[Shown]:
        """Return all, those that are running first, the latest begun of each first."""
        return sorted(self._shown.values(), key=lambda one: (one.news.is_over, -one.number))
