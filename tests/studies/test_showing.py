"""Studies that are watched: what is sent to the dashboard, and that no study is harmed by what goes wrong there."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daskevo.search import Grid
from daskevo.tuning import Trajectory
from daskevo_plugins.dashboard.plugin import HANDLERS, DashboardPlugin
from daskevo_workflows.dashboard import dashboard_client
from daskevo_workflows.dashboard.dashboard_client import where_shown
from daskevo_workflows.dashboard.study import Showing
from daskevo_workflows.reports.study_reader import read_study
from daskevo_workflows.studies.controller import Controller
from tests.plugins.test_dashboard import news_of
from tests.studies.pretending import pretended, small_grid
from tests.studies.threads import Fault, ThreadCrew

WEB = SimpleNamespace(applications=[type("BokehTornado", (), {"prefix": ""})()], add_application=lambda one: None)


class Client:
    """A client with a scheduler that has nothing but handlers."""

    id = "the client"

    def __init__(self, loop: asyncio.AbstractEventLoop, web: Any = WEB) -> None:
        self.loop = SimpleNamespace(asyncio_loop=loop)
        self.host = SimpleNamespace(handlers={}, http_application=web)
        self.asked: list[Any] = []
        self.scheduler = SimpleNamespace(address="here", **{HANDLERS["studies"]: self._ask})

    async def _ask(self, news: Any) -> Any:
        self.asked.append(news)
        handler = self.host.handlers.get(HANDLERS["studies"])
        return None if handler is None else await handler(news=news)

    async def register_plugin(self, plugin: DashboardPlugin) -> None:
        self.plugin = plugin
        plugin.start(self.host)


class ShownCrew(ThreadCrew):
    """As a crew on a Dask cluster does."""

    client: Any

    def begin(self, controller: Controller) -> None:
        self.showing = Showing(self.client)
        super().begin(controller)

    def watch(self) -> None:
        super().watch()
        self.showing.look(self.controller)

    def close(self, patience_s: float) -> None:
        super().close(patience_s)
        self.showing.close(self.controller)


async def _all(loop: asyncio.AbstractEventLoop) -> None:
    """Wait for all other tasks of a loop, whatever comes of them."""
    others = asyncio.all_tasks(loop) - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    found = asyncio.new_event_loop()
    thread = threading.Thread(target=found.run_forever)
    thread.start()
    yield found
    found.call_soon_threadsafe(found.stop)
    thread.join()
    # One may wait for another, which raises what the test has it raise.
    found.run_until_complete(_all(found))
    found.run_until_complete(found.shutdown_default_executor())
    found.close()


def crew_of(client: Any, **options: Any) -> ShownCrew:
    crew = ShownCrew("t0", "t1", **options)
    crew.client = client
    return crew


def test_a_study_is_shown_while_it_runs_and_after(loop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_client, "UNWATCHED_S", 0.02)
    monkeypatch.setattr(dashboard_client, "SHARE", 1.0)
    monkeypatch.setattr(dashboard_client, "LAST_WORD_S", 60.0)
    came, go_on = threading.Event(), threading.Event()
    bad = small_grid().configuration(list(small_grid().enumerate())[-1])

    def waits(trajectory: Trajectory, step: int) -> None:
        if step > 4:
            came.set()
            assert go_on.wait(60)
        if trajectory.configuration.key(step) == bad.key(16):
            raise Fault("error")

    client = Client(loop)
    with pretended(crew_of(client, before_step=waits), tmp_path) as study:
        futures = [study.submit(candidate, 16) for candidate in small_grid().enumerate()]
        assert came.wait(60)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            study.controller.call(lambda: None)
            shown = client.plugin.board.studies.all() if hasattr(client, "plugin") else []
            news = shown[0].news if shown else None
            if news is not None and news.trainers and "4 done" in news.cards[2].note and "12" in news.cards[0].note:
                break
        assert news is not None
        assert news.standing == "running"
        assert {one.trainer for one in news.trainers} <= {"t0", "t1"}
        assert news.trainers[0].steps == "4 to 16"
        assert news.cards[0].note == "12 without an answer"
        go_on.set()
        for future in futures:
            future.exception(60)
    (shown,) = client.plugin.board.studies.all()
    assert shown.news.standing == "ended"
    assert shown.news.trainers == ()
    counted = {word: f"{count} {word}" for word, count in read_study(tmp_path / "run").tree.steps().items() if count}
    assert counted.keys() == {"done", "failed"}
    assert shown.news.cards[2].note == f"of the tree: {', '.join(counted.values())}"
    assert shown.news.cards[0].note == "1 request failed"
    # What is no news is not sent again.
    messages = [message for message in client.asked if message is not None]
    assert all(message != after for message, after in pairwise(messages))


@pytest.mark.parametrize("fault", ["no plugins", "closed", "hangs", "no dashboard", "picture"])
def test_no_study_waits_for_or_fails_from_what_goes_wrong(
    fault: str, loop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard_client, "UNWATCHED_S", 0.0)
    monkeypatch.setattr(dashboard_client, "AGAIN_S", 0.0)
    monkeypatch.setattr(dashboard_client, "SHARE", 1e9)
    monkeypatch.setattr(dashboard_client, "LAST_WORD_S", 0.1)
    client = Client(loop, None if fault == "no dashboard" else WEB)

    async def register(plugin: Any) -> None:
        if fault == "hangs":
            await asyncio.sleep(0.5)
        raise ModuleNotFoundError("No module named 'daskevo_plugins.dashboard'")

    def closed(news: Any) -> None:
        client.asked.append(news)
        raise OSError("the connection is closed")

    if fault in ("no plugins", "hangs"):
        monkeypatch.setattr(client, "register_plugin", register)
    elif fault == "closed":
        client.scheduler = SimpleNamespace(address="here", **{HANDLERS["studies"]: closed})
    elif fault == "picture":
        monkeypatch.setattr("daskevo_workflows.studies.study_record.picture_of", lambda *args, **more: 1 / 0)
    with pretended(crew_of(client), tmp_path) as study:
        result = study.run(Grid())
        for _ in range(200):
            study.controller.call(lambda: None)
            time.sleep(0.001)
    assert len(result.reports) == 12
    assert all(report.status == "finished" for report in result.reports)
    assert len(client.asked) <= 2 * dashboard_client.MOST_FAILURES


def test_another_scheduler_at_the_old_address_is_told_all(loop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_client, "LAST_WORD_S", 60.0)
    client = Client(loop)
    sender = dashboard_client.Sender(client, "studies")
    picture: Any = SimpleNamespace(news=lambda name: news_of("s1", client=name))

    def send() -> Any:
        sender.send([picture])
        sender.wait()
        return client.plugin

    first = send()
    assert send() is first
    assert client.asked[-1] is None  # it was no news
    client.host.handlers.clear()
    second = send()
    assert second is not first
    assert send() is second
    assert [shown.news.study for shown in second.board.studies.all()] == ["s1"]
    assert sender.has_last_word


def test_where_there_is_no_page_there_is_no_link() -> None:
    def sync(function: Any, *args: Any, **options: Any) -> Any:
        return asyncio.run(function(*args))

    client = Client(None)  # type: ignore[arg-type]
    client.sync, client.dashboard_link = sync, "http://host:8787/status"  # type: ignore[attr-defined]
    assert where_shown(client, "studies") == ("http://host:8787/daskevo/studies", "")
    client.dashboard_link = "http://host:8787"  # type: ignore[attr-defined]
    link, why = where_shown(client, "studies")
    assert link is None
    assert "does not end in /status" in why
    link, why = where_shown(object(), "studies")
    assert link is None
    assert "start it with the same daskevo" in why
    off = Client(None, web=None)  # type: ignore[arg-type]
    off.sync, off.dashboard_link = sync, "http://host:8787/status"  # type: ignore[attr-defined]
    link, why = where_shown(off, "studies")
    assert link is None
    assert "turned off at this scheduler" in why
