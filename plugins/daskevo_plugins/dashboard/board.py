"""The scheduler's data for display: latest news of studies and searches, latest views of repositories."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from daskevo.types import JSON
from daskevo_plugins.dashboard.latest_news import LatestNews
from daskevo_plugins.dashboard.news import StudyNews
from daskevo_plugins.dashboard.repository_views import RepositoryViews
from daskevo_plugins.dashboard.search_news import SearchNews
from daskevo_plugins.dashboard.search_part import search_part
from daskevo_plugins.dashboard.study_part import study_part

# Bounds, because a scheduler may run for months and a page lists all of them.
MOST_STUDIES = 20
MOST_SEARCHES = 20
WATCHED_S = 6.0
"""Seconds after a request for which a page counts as watched."""


class Board:
    """Stores news and views, and provides them to pages.

    Parameters
    ----------
    clock:
        Returns seconds.

    Attributes
    ----------
    studies, searches:
        Latest news of each.
    repositories:
        Latest views of repositories.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.studies: LatestNews[StudyNews] = LatestNews(MOST_STUDIES, study_part, clock)
        self.searches: LatestNews[SearchNews] = LatestNews(MOST_SEARCHES, search_part, clock)
        self.repositories = RepositoryViews(clock)
        self._looked: dict[str, float] = {}
        # Random, and part of every page's version: counters begin anew when the scheduler restarts, and a page that was
        # opened before must not take the new ones for what it has.
        self.instance = uuid.uuid4().hex[:8]

    def front(self) -> str:
        """Return the page to open first: searches if there are any, else studies, else repositories."""
        # The search page comes first where there is nothing at all, because it says how to begin a search.
        if self.searches.all() or not (self.studies.all() or self.repositories.all()):
            return "search"
        return "studies" if self.studies.all() else "repository"

    def is_watched(self, page: str) -> bool:
        """Tell whether somebody has looked at a page recently."""
        return self.clock() - self._looked.get(page, float("-inf")) < WATCHED_S

    def look(self, page: str) -> None:
        """Note that somebody looks at a page."""
        self._looked[page] = self.clock()

    def take_study(self, message: JSON) -> None:
        """Store news of a study; if invalid, raise like :meth:`StudyNews.from_json` and change nothing."""
        self.studies.take(StudyNews.from_json(message))

    def take_search(self, message: JSON) -> None:
        """Store news of a search; if invalid, raise like :meth:`SearchNews.from_json` and change nothing."""
        self.searches.take(SearchNews.from_json(message))

    def left(self, client: str) -> None:
        """Mark a client's searches and studies as gone when it disconnects."""
        # What its trainers did last may not be what they do now: nobody reports it any more.
        self.studies.left(client, trainers=())
        self.searches.left(client, trainers=(), under_way=0)
