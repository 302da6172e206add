"""What a scheduler has to show: the last news of each study and search, the last look at each repository."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from daskevo.types import JSON
from daskevo_plugins.dashboard.latest_news import Shelf
from daskevo_plugins.dashboard.news import StudyNews
from daskevo_plugins.dashboard.repository_views import Sights
from daskevo_plugins.dashboard.search_news import SearchNews
from daskevo_plugins.dashboard.search_part import search_part
from daskevo_plugins.dashboard.study_part import study_part

MOST_STUDIES = 20
MOST_SEARCHES = 20
LEAST_S, MOST_S = 1.0, 4.0
"""Seconds after which a browser asks again: while something goes on, and where nothing does."""
WATCHED_S = 6.0
"""Seconds after somebody looked in which a page counts as being watched."""


class Board:
    """Takes in news and gives out what there is to show.

    Parameters
    ----------
    clock:
        Seconds.

    Attributes
    ----------
    studies, searches:
        Their last news.
    sights:
        Of repositories.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.studies: Shelf[StudyNews] = Shelf(MOST_STUDIES, study_part, clock)
        self.searches: Shelf[SearchNews] = Shelf(MOST_SEARCHES, search_part, clock)
        self.sights = Sights(clock)
        self._looked: dict[str, float] = {}
        # A page that was opened before the scheduler was started again must not take the new one's for the old one's.
        self._name = uuid.uuid4().hex[:8]

    def version(self, page: str) -> str:
        """Return another word after each change of what a page shows."""
        changes = {
            "search": (self.searches.changes,),
            "studies": (self.studies.changes,),
            "repository": (self.sights.changes,),
            "lineage": (self.sights.model_changes, self.studies.changes),
        }[page]
        return "-".join(map(str, (self._name, *changes)))

    def front(self) -> str:
        """Return the page that has most to show: of searches, else of studies, else of repositories."""
        if self.searches.all() or not (self.studies.all() or self.sights.all()):
            return "search"
        return "studies" if self.studies.all() else "repository"

    def next_s(self, page: str) -> float:
        """Return the seconds after which a page may show something else."""
        if page in ("search", "studies"):
            shelf = self.searches if page == "search" else self.studies
            wait_s = LEAST_S if shelf.has_running else MOST_S
        else:
            wait_s = self.sights.next_s()
        return min(MOST_S, max(LEAST_S, wait_s))

    def is_watched(self, page: str) -> bool:
        """Tell whether somebody looked at a page just now."""
        return self.clock() - self._looked.get(page, float("-inf")) < WATCHED_S

    def look(self, page: str) -> None:
        """Take in that somebody looks at a page."""
        self._looked[page] = self.clock()

    def take_study(self, message: JSON) -> None:
        """Take in news of a study; raises as :meth:`StudyNews.from_json`, and changes nothing then."""
        self.studies.take(StudyNews.from_json(message))

    def take_search(self, message: JSON) -> None:
        """Take in news of a search; raises as :meth:`SearchNews.from_json`, and changes nothing then."""
        self.searches.take(SearchNews.from_json(message))

    def left(self, client: str) -> None:
        """Take in that a client has gone: what its process led is not led any more."""
        self.studies.left(client, trainers=())
        self.searches.left(client, trainers=(), under_way=0)
