"""News of searches, and the page that shows them: what is refused, what is drawn, what stays bounded."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest

from daskevo.errors import CorruptRecord, LaterVersion
from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.message_checks import LONGEST
from daskevo_plugins.dashboard.news_pages import search_now
from daskevo_plugins.dashboard.pages import PAGES, frame
from daskevo_plugins.dashboard.search_news import (
    FORMAT,
    MOST_POINTS,
    MOST_TRAINERS,
    Best,
    PhaseRow,
    Point,
    SearchNews,
    ShownUnit,
    TrainerRow,
)
from tests.plugins.test_dashboard import check_harmless
from tests.workflows.reports.test_page import ATTACK, Page, drawings


def news_of(search: str = "s1", words: str = "one", points: int = 3, **fields: Any) -> SearchNews:
    """A search with some evaluations, of which the last one is the best."""
    drawn = tuple(Point(10.0 * place, place, 0.5 + 0.001 * place, 0.25, place > 0, True) for place in range(points))
    known: dict[str, Any] = {
        "search": search,
        "client": "c1",
        "name": words,
        "metric": words,
        "direction": "max",
        "facts": ((words, words),),
        "standing": "running",
        "said": words,
        "evaluations": 60,
        "finished": points,
        "failed": 1,
        "rejected": 2,
        "stopped": 0,
        "duplicates": 4,
        "under_way": 1,
        "slots": 2,
        "running_s": 10.0 * points,
        "left_s": 90.0,
        "deadline_s": None,
        "population": points or None,
        "best": Best(points - 1, words, drawn[-1].quality) if points else None,
        "stored_bytes": 1_000,
        "full_bytes": 4_000,
        "models": points,
        "points": drawn,
        "best_line": tuple((point.at_s, point.quality) for point in drawn[-100:]),
        "phases": (PhaseRow("training", points, 6.0), PhaseRow(words, 1, 0.5)),
        "units": (ShownUnit(words, 2, 1, points, 1, 0, 0),),
        "trainers": (TrainerRow(words, "evaluating", words, 3.0, points, (6.0, 0.5)),),
    }
    return SearchNews(**{**known, **fields})


def sent(news: SearchNews) -> Any:
    return json.loads(json.dumps(news.to_json()))


def test_news_arrive_as_they_were_sent() -> None:
    for news in (news_of(), news_of(points=0), news_of(points=MOST_POINTS), news_of(stored_bytes=None, left_s=None)):
        assert SearchNews.from_json(sent(news)) == news


BAD: dict[str, Any] = {
    "nothing": lambda message: None,
    "another format": lambda message: {**message, "format": FORMAT + 1},
    "a field too many": lambda message: {**message, "more": 1},
    "a count below 0": lambda message: {**message, "failed": -1},
    "a count that is none": lambda message: {**message, "failed": True},
    "a count beyond all": lambda message: {**message, "failed": 2**63},
    "no number": lambda message: {**message, "left_s": float("nan")},
    "an infinite quality": lambda message: {**message, "best": [1, "m", float("inf")]},
    "another direction": lambda message: {**message, "direction": "sideways"},
    "a standing that can't be one": lambda message: {**message, "standing": ["running"]},
    "a long name": lambda message: {**message, "name": "x" * (LONGEST + 1)},
    "many points": lambda message: {**message, "points": [[0, 0, 0, 0, True, True]] * (MOST_POINTS + 1)},
    "a point of five": lambda message: {**message, "points": [[0, 0, 0, 0, True]]},
    "many trainers": lambda message: {**message, "trainers": message["trainers"] * (MOST_TRAINERS + 1)},
    "seconds of other phases": lambda message: {**message, "trainers": [["t", "free", "", 0, 0, [1.0]]]},
    "a trainer that does something else": lambda message: {**message, "trainers": [["t", "<b>", "", 0, 0, [1, 1]]]},
    "much text": lambda message: {**message, "trainers": [["x" * 400, "free", "x" * 500, 0, 0, [1, 1]]] * 100 * 3},
    "deep": lambda message: {**message, "facts": _deep()},
}


def _deep() -> Any:
    value: Any = []
    for _ in range(5_000):
        value = [value]
    return value


@pytest.mark.parametrize("kind", BAD)
def test_what_can_t_be_shown_is_refused_and_changes_nothing(kind: str) -> None:
    board = Board(lambda: 0.0)
    board.take_search(sent(news_of()))
    before, shown = PAGES["search"].version(board), search_now(board, {})
    with pytest.raises((CorruptRecord, LaterVersion)):
        board.take_search(BAD[kind](copy.deepcopy(sent(news_of("s2")))))
    assert (PAGES["search"].version(board), search_now(board, {})) == (before, shown)


def test_the_page_says_all_there_is() -> None:
    now = [0.0]
    board = Board(lambda: now[0])
    assert "daskevo nas PROBLEM" in search_now(board, {})
    board.take_search(sent(news_of("s0", words="the other")))
    board.take_search(sent(news_of("s1", words="val_loss", direction="min")))
    now[0] = 75.0
    content = search_now(board, {})
    words = " ".join(Page(frame("search", content, PAGES["search"].version(board))).words.split())
    for said in (
        "3 of 60",
        "1 failure, 2 rejected candidates, 4 duplicates",
        "evaluation 2",
        "1 under way",
        "56 to go",
        "less is better",
        "90.00 s",
        "4×",
        "training",
        "last news 1 min ago",
        "in the population",
    ):
        assert said in words, said
    assert "kind ready under way done failed lost cancelled val_loss 2 1 3 1 0 0" in words
    quality, frozen = drawings(content)[1:3]
    assert len(quality.findall(".//{http://www.w3.org/2000/svg}path[@class='line best']")) == 2  # one in the legend
    assert frozen.get("role") == "img"
    assert "<h2>the other</h2>" in search_now(board, {"search": "s0"})
    version = PAGES["search"].version(board)
    board.left("c1")
    assert PAGES["search"].version(board) != version
    assert search_now(board, {}).count("its process has left") == 3  # in the list of both, and of the one that is shown


def test_of_two_searches_with_one_name_it_is_said_which_is_shown() -> None:
    board = Board()
    for search in ("0a1b2c3d4e", "5f6a7b8c9d"):
        board.take_search(sent(news_of(search, words="run")))
    for chosen, other in (("0a1b2c3d4e", "5f6a7b8c9d"), ("5f6a7b8c9d", "0a1b2c3d4e")):
        content = search_now(board, {"search": chosen})
        assert f"<h2>run ({chosen[:8]})</h2>" in content
        assert f'<a href="?search={chosen}" aria-current="true">run ({chosen[:8]})</a>' in content
        assert f'<a href="?search={other}">run ({other[:8]})</a>' in content
    board.take_search(sent(news_of("another", words="other")))
    assert "<h2>other</h2>" in search_now(board, {})


def test_a_search_that_has_nothing_yet_says_what_it_waits_for() -> None:
    board = Board()
    board.take_search(sent(news_of(points=0, left_s=None, stored_bytes=None)))
    assert "import Keras" in search_now(board, {})
    board.take_search(sent(news_of(points=0, standing="stopped", said="NoTrainer")))
    assert "No evaluation has finished." in search_now(board, {})


def test_what_never_learnt_does_not_press_the_others_together() -> None:
    points = tuple(replace_quality(place, 1e9 if place == 5 else 0.5 + 0.01 * place) for place in range(20))
    best_line = ((0.0, 0.5),)
    board = Board()
    board.take_search(sent(news_of(points=20, direction="min")) | {"points": list(map(list, points))})
    board.take_search(sent(replace(news_of(points=20, direction="min"), points=points, best_line=best_line)))
    content = search_now(board, {})
    assert "1 that lies far off is drawn" in content
    assert "1,000,000,000" not in content


def replace_quality(place: int, quality: float) -> Point:
    return Point(float(place), place, quality, 0.0, False, False)


def test_words_of_others_stay_words_and_a_page_stays_small() -> None:
    board = Board()
    for name in (ATTACK, "other"):
        board.take_search(sent(news_of(name, words=ATTACK, points=MOST_POINTS)))
    content = search_now(board, {"search": ATTACK})
    check_harmless(Page(frame("search", content, PAGES["search"].version(board))))
    assert len(content) < 60_000
