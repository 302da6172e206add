"""daskevo's pages on Dask's dashboard: what is taken in, what is refused, what a browser gets."""

from __future__ import annotations

import copy
import json
import socket
import sys
from typing import Any

import pytest
from distributed.utils_test import gen_cluster
from tornado.httpclient import AsyncHTTPClient, HTTPResponse

from daskevo.deploy.local import local_cluster
from daskevo.errors import CorruptRecord, InvalidInput, LaterVersion
from daskevo.tuning import Configuration, Constant, MultiStep, SearchPlan, Trajectory
from daskevo.tuning.progress_tree import Asked, progress_tree
from daskevo.tuning.tree_layout import tree_layout
from daskevo_plugins.dashboard.board import MOST_STUDIES, WATCHED_S, Board
from daskevo_plugins.dashboard.news import LONGEST, MOST_MARKS, CardNews, StudyNews, TrainerNews
from daskevo_plugins.dashboard.news_pages import studies_now
from daskevo_plugins.dashboard.page import LEAST_S
from daskevo_plugins.dashboard.pages import PAGES, frame
from daskevo_plugins.dashboard.plugin import DashboardPlugin
from daskevo_workflows.dashboard.dashboard_client import ask, beside
from tests.workflows.reports.test_page import ATTACK, Page, drawings


def news_of(study: str = "s1", standing: Any = "running", client: str = "c1", words: str = "one") -> StudyNews:
    """Two trials that part after 4 steps; one is done."""
    rates = (Constant(0.1), MultiStep(0.1, (4,), 0.1))
    one, other = (Trajectory("m", Configuration({"lr": rate})) for rate in rates)
    tree = progress_tree(SearchPlan(), [Asked(words, one, 6, "done", 0.9), Asked("two", other, 9)])
    cards, trainers = (CardNews("trials", "1", words),), (TrainerNews(words, "4 to 9", "two"),)
    return StudyNews(study, client, words, words, standing, cards, trainers, tree_layout(tree))


def sent(news: StudyNews) -> Any:
    """A message as it arrives: Dask makes tuples of lists."""

    def arrived(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: arrived(each) for name, each in value.items()}
        return tuple(map(arrived, value)) if isinstance(value, (list, tuple)) else value

    return arrived(json.loads(json.dumps(news.to_json())))


def test_news_arrive_as_they_were_sent() -> None:
    for news in (news_of(), StudyNews("s", "c", "n", "m", "ended", (), (), None)):
        assert StudyNews.from_json(sent(news)) == news


ROW = {"parent": None, "start": 0, "stop": 1, "goals": [], "needed": [0], "words": "", "trials": 0, "branches": 1}
SPAN = [0, 1, "done", [], None]
BAD: dict[str, Any] = {
    "nothing": lambda message: 7,
    "another format": lambda message: {**message, "format": 2},
    "a format that is none": lambda message: {**message, "format": True},
    "a field too many": lambda message: {**message, "more": 1},
    "a field too few": lambda message: {name: message[name] for name in message if name != "cards"},
    "a name that is none": lambda message: {**message, "name": 7},
    "a long name": lambda message: {**message, "name": "x" * (LONGEST + 1)},
    "no standing": lambda message: {**message, "standing": "sleeping"},
    "a standing that can't be one": lambda message: {**message, "standing": ["running"]},
    "cards of two": lambda message: {**message, "cards": [["a", "b"]]},
    "many cards": lambda message: {**message, "cards": [["a", "b", "c"]] * 1_000},
    "no tree": lambda message: {**message, "tree": "<svg>"},
    "rows of something else": lambda message: {**message, "tree": {**message["tree"], "rows": [1]}},
    "a row without spans": lambda message: {**message, "tree": {"rows": [{**ROW, "spans": []}], "stop": 1, "unit": ""}},
    "more spans than numbers": lambda message: {
        **message,
        "tree": {"rows": [{**ROW, "spans": [SPAN, SPAN]}], "stop": 1, "unit": "step"},
    },
    "many marks": lambda message: {
        **message,
        "tree": {
            "rows": [{**ROW, "spans": [SPAN] * (MOST_MARKS + 1), "needed": [0] * (MOST_MARKS + 1)}],
            "stop": 1,
            "unit": "step",
        },
    },
    "much text": lambda message: {
        **message,
        "tree": {
            "rows": [{**ROW, "spans": [[0, 1, "done", ["x" * LONGEST] * 5, None]] * 100, "needed": [0] * 100}],
            "stop": 1,
            "unit": "step",
        },
    },
    "deep": lambda message: {**message, "tree": _deep()},
}


def _deep() -> Any:
    value: Any = []
    for _ in range(5_000):
        value = [value]
    return {"rows": [{**ROW, "spans": [[0, 1, "done", value, None]]}], "stop": 1, "unit": "step"}


@pytest.mark.parametrize("kind", BAD)
def test_what_can_t_be_shown_is_refused_and_changes_nothing(kind: str) -> None:
    board = Board(lambda: 0.0)
    board.take_study(sent(news_of()))
    before, shown = PAGES["studies"].version(board), studies_now(board, {})
    with pytest.raises((CorruptRecord, LaterVersion)):
        board.take_study(BAD[kind](copy.deepcopy(sent(news_of("s2")))))
    assert PAGES["studies"].version(board) == before
    assert studies_now(board, {}) == shown


def test_the_board_keeps_what_runs_and_is_bounded() -> None:
    now = [0.0]
    board = Board(lambda: now[0])
    assert not board.is_watched("studies")
    board.look("studies")
    assert board.is_watched("studies")
    assert not board.is_watched("search")
    now[0] = WATCHED_S + 1
    assert not board.is_watched("studies")
    for number in range(MOST_STUDIES + 5):
        now[0] += 1
        board.take_study(sent(news_of(f"s{number}", "ended" if number in (3, 4, 7) else "running")))
    studies = [shown.news.study for shown in board.studies.all()]
    assert len(studies) == MOST_STUDIES
    # The three that were over, then those with the oldest news.
    assert studies == [f"s{number}" for number in range(MOST_STUDIES + 4, 1, -1) if number not in (3, 4, 7)]
    version = PAGES["studies"].version(board)
    board.left("somebody else")
    assert PAGES["studies"].version(board) == version
    board.left("c1")
    assert {shown.news.standing for shown in board.studies.all()} == {"gone"}
    assert PAGES["studies"].version(board) != version


def test_the_page_shows_one_tree_and_lists_all() -> None:
    board = Board()
    assert "No study has been seen" in studies_now(board, {})
    for name in ("s1", "s2"):
        board.take_study(sent(news_of(name, words=f"name of {name}")))
    board.take_study(sent(news_of("s3", "ended", words="name of s3")))
    for chosen, shown in (("", "s2"), ("s1", "s1"), ("s3", "s3"), ("none", "s2")):
        content = studies_now(board, {"study": chosen})
        page = Page(frame("studies", content, PAGES["studies"].version(board)))
        assert f"<h2>name of {shown}</h2>" in content
        assert all(f"name of {name}" in page.words for name in ("s1", "s2", "s3"))
        (tree,) = drawings(content)
        assert len(tree.findall(".//{http://www.w3.org/2000/svg}rect[@class='waiting']")) == 2  # one in the legend
    board.take_study(sent(StudyNews("s4", "c", "n", "m", "running", (), (), None)))
    assert "too large" in studies_now(board, {})


def test_words_of_others_stay_words() -> None:
    board = Board()
    for name in (ATTACK, "other"):
        board.take_study(sent(news_of(name, words=ATTACK, client=ATTACK)))
    check_harmless(Page(frame("studies", studies_now(board, {"study": ATTACK}), PAGES["studies"].version(board))))


def check_harmless(page: Page) -> None:
    """See that a page has no markup but its own, and loads nothing but its own."""
    assert page.tags["img"] == 0
    assert page.tags["script"] == 1
    assert page.handlers == []
    known = {"../status", "#main", "page.css", "page.js", "", *PAGES}
    assert {reference.split("?")[0] for reference in page.references} <= known


async def get(scheduler: Any, path: str) -> HTTPResponse:
    url = f"http://localhost:{scheduler.http_server.port}{path}"
    return await AsyncHTTPClient().fetch(url, follow_redirects=False, raise_error=False)


SHOWN = {"dashboard": True, "dashboard_address": ":0"}


@pytest.mark.parametrize("prefix", ["", "/here"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_browser_gets_the_page_as_long_as_something_changes(prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskevo_plugins.dashboard.board.WATCHED_S", 600.0)

    @gen_cluster(client=True, nthreads=[], timeout=180, scheduler_kwargs={**SHOWN, "http_prefix": prefix})
    async def run(c: Any, s: Any) -> None:
        assert await ask(c) == {"path": f"{prefix}/daskevo/studies", "is_watched": False}
        await ask(c, news_of(client=c.id))
        plugin = s.plugins[DashboardPlugin.name]
        await c.register_plugin(DashboardPlugin())
        assert s.plugins[DashboardPlugin.name] is plugin
        page = await get(s, f"{prefix}/daskevo/studies")
        assert "name of" not in page.body.decode()
        assert 'class="done"' in page.body.decode()
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        assert (await ask(c))["is_watched"]
        assert page.headers.get("Etag") is None  # a digest of each answer, for nothing
        seen = PAGES["studies"].version(plugin.board)
        assert (await get(s, f"{prefix}/daskevo/studies/now?seen={seen}")).code == 204
        with pytest.raises(CorruptRecord):
            await ask(c, StudyNews("s", "c", "x" * (LONGEST + 1), "m", "ended", (), (), None))
        assert (await get(s, f"{prefix}/daskevo/studies/now?seen={seen}")).code == 204
        await ask(c, news_of(client=c.id, words="changed"))
        now = await get(s, f"{prefix}/daskevo/studies/now?seen={seen}")
        assert (now.code, now.headers["X-Daskevo-Version"]) == (200, PAGES["studies"].version(plugin.board))
        assert now.headers["X-Daskevo-Next"] == f"{LEAST_S:.2f}"
        assert "<h2>changed</h2>" in now.body.decode()
        for path, place in (("/daskevo", "daskevo/studies"), ("/daskevo/", "studies")):
            assert (await get(s, prefix + path)).headers["Location"] == place
        for file in ("page.css", "page.js"):
            assert (await get(s, f"{prefix}/daskevo/{file}")).code == 200
        plots = json.loads((await get(s, f"{prefix}/individual-plots.json")).body)
        assert {plots[f"daskevo {page.title()}"] for page in PAGES} == {f"/daskevo/{page}" for page in PAGES}
        for page in PAGES:
            assert (await get(s, f"{prefix}/daskevo/{page}")).code == 200
        assert "Individual Progress" in plots
        assert '<a href="daskevo">' in (await get(s, f"{prefix}/status")).body.decode()
        plugin.remove_client(s, c.id)
        assert "its process has left" in (await get(s, f"{prefix}/daskevo/studies/now")).body.decode()

    run()


@gen_cluster(client=True, nthreads=[], timeout=180, scheduler_kwargs={"dashboard": False, "dashboard_address": ":0"})
async def test_where_the_dashboard_is_off_nothing_is_shown(c: Any, s: Any) -> None:
    assert await ask(c, news_of()) == {"path": None, "is_watched": False}
    assert (await get(s, "/daskevo/studies")).code == 404


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning", "ignore:Port .* already in use:UserWarning")
def test_a_port_in_use_is_another_one_and_the_address_is_right() -> None:
    with socket.socket() as busy:
        busy.bind(("0.0.0.0", 0))
        busy.listen()
        port = busy.getsockname()[1]

        @gen_cluster(
            client=True, nthreads=[], timeout=180, scheduler_kwargs={"dashboard": True, "dashboard_address": f":{port}"}
        )
        async def run(c: Any, s: Any) -> None:
            link = beside(c.dashboard_link, (await ask(c, page="search"))["path"])
            assert link is not None
            assert f":{port}/" not in link
            answer = await AsyncHTTPClient().fetch(link)
            assert "No search has been seen" in answer.body.decode()

        run()


@pytest.mark.parametrize("address", ["nonsense", ":99999", ":-1", "", "192.0.2.1:0", "x" * 300 + ":1"])
def test_an_address_where_no_dashboard_can_listen_is_named(address: str) -> None:
    with pytest.raises(InvalidInput, match=r"dashboard_address='.*use ':8787'"):
        local_cluster(dashboard_address=address)


def test_without_bokeh_the_pages_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed.dashboard.scheduler", None)

    @gen_cluster(client=True, nthreads=[], timeout=180, scheduler_kwargs={**SHOWN, "http_prefix": "/here"})
    async def run(c: Any, s: Any) -> None:
        assert (await ask(c, page="search"))["path"] == "/here/daskevo/search"
        for page in PAGES:
            assert (await get(s, f"/here/daskevo/{page}")).code == 200
        assert "needs bokeh" in (await get(s, "/here/status")).body.decode()

    run()
