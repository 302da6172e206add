"""What providers tell those who watch: it is what the shards hold, and what they were asked."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from tornado.httpclient import AsyncHTTPClient

from daskevo.provider.call_counts import Tally
from daskevo_plugins.dashboard import poll
from daskevo_plugins.dashboard.board import Board
from daskevo_plugins.dashboard.plugin import DashboardPlugin
from daskevo_plugins.dashboard.poll import Poller, _read
from daskevo_plugins.dashboard.repository_views import EVERY_S
from tests.cluster.helpers import at_rest, chain, coordinator_of, evo_cluster, make, open_here, plugin_of, reserve


@evo_cluster(providers=2)
async def test_providers_tell_what_they_hold_and_what_they_were_asked(c: Any, s: Any, a: Any, b: Any, t: Any) -> None:
    repository = await open_here(c, None)
    await make(repository, chain(8, 6), "first", score=0.4, labels=["user:one"])
    await make(repository, chain(8, 6, 3), "child", score=0.9, labels=["best:run"])
    # As a rule this is under way while somebody watches: it has reserved what it inherits.
    await reserve(repository, chain(8, 6, 3, 5), "third")
    await repository.connection.session.outbox.sent()  # the ends of the other two
    coordinator = coordinator_of(s)
    view = _read("k", await coordinator.shown(100, 10.0), 0.0)
    stats = await repository.stats()
    assert (view.total("models"), view.attempts) == (2, 1)
    for figure, name in (("stored_bytes", "payload_bytes"), ("full_copy_bytes",) * 2, ("journal_bytes",) * 2):
        assert view.total(figure) == stats[name]
    assert view.total("references") + view.total("reservations") < stats["references"]  # without those on one's own
    assert view.total("reservations") > 0
    rows = {row.model_id: row for row in view.models}
    assert (rows["child"].ancestor, rows["child"].contributor) == ("first", "first")
    assert rows["child"].contributed == rows["child"].tensors - rows["child"].own_tensors == 4
    assert (rows["first"].heirs, rows["first"].given_tensors) == (2, 4)
    assert rows["first"].given_bytes == rows["first"].own_bytes
    assert dict(view.labels) == {"user:one": 1, "best:run": 1}
    assert [(row.scope, row.objective, row.models) for row in view.scopes] == [("test", "max score", 2)]
    assert sum(row.asked for row in view.shard_rows) > 0
    tallies = [plugin_of(worker).host.tally for worker in (a, b)]
    assert all(tally.queries.items >= 3 for tally in tallies)
    assert sum(tally.puts.items for tally in tallies) == sum(row.own_bytes for row in view.models)
    # A retired ancestor stays as long as its heir does, and is told of as such; those with heirs come first.
    await repository.retire("first")
    await at_rest(s, a, b)
    first = (await coordinator.shown(0, 10.0))["providers"]
    told = [row for answer in first.values() for row in answer["models"]]
    assert {row[0]: row[2] for row in told}["first"] == "retired"
    assert ("daskevo_coordinator_live_attempts", ("memory",), 1) in list(coordinator.metrics())
    figures = {(name, labels[1]): value for name, labels, value in plugin_of(a).metrics()}
    assert figures["daskevo_provider_queries", plugin_of(a).host.name] == tallies[0].queries.items


SHOWN = {"dashboard": True, "dashboard_address": ":0"}


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages wait for the first look, and that for its answers, as long as it takes."""
    for limit in ("FIRST_S", "ANSWER_S"):
        monkeypatch.setattr(poll, limit, 60.0)


@pytest.mark.usefixtures("patient")
@evo_cluster(scheduler_kwargs=SHOWN)
async def test_a_repository_alone_has_its_pages_and_has_them_once(c: Any, s: Any, a: Any, t: Any) -> None:
    await make(await open_here(c, None), chain(8, 6), "first")
    plugin, routes = s.plugins[DashboardPlugin.name], len(s.http_application.applications)
    url = f"http://localhost:{s.http_server.port}/daskevo"
    shown = await AsyncHTTPClient().fetch(url)
    assert shown.effective_url == f"{url}/repository"
    assert "in memory" in shown.body.decode()
    assert "first" in (await AsyncHTTPClient().fetch(f"{url}/lineage")).body.decode()
    await open_here(c, None, "other")
    await c.register_plugin(DashboardPlugin())
    assert (s.plugins[DashboardPlugin.name], len(s.http_application.applications)) == (plugin, routes)


@pytest.mark.parametrize("fault", ["no dashboard", "no package", "broken"])
def test_what_is_amiss_with_the_pages_keeps_no_repository_from_being_opened(fault: str, monkeypatch: Any) -> None:
    if fault == "no package":
        monkeypatch.setitem(sys.modules, "daskevo_plugins.dashboard.plugin", None)
    elif fault == "broken":
        monkeypatch.setattr("daskevo_plugins.dashboard.plugin.application", lambda *arguments: 1 / 0)

    @evo_cluster(scheduler_kwargs=SHOWN if fault != "no dashboard" else {})
    async def run(c: Any, s: Any, a: Any, t: Any) -> None:
        await make(await open_here(c, None), chain(8, 6), "first")
        assert (DashboardPlugin.name in s.plugins) == (fault == "no dashboard")

    run()


@pytest.mark.usefixtures("patient")
@evo_cluster(scheduler_kwargs=SHOWN)
async def test_nobody_is_asked_unless_somebody_watches(c: Any, s: Any, a: Any, t: Any) -> None:
    await make(await open_here(c, None), chain(8, 6), "first")
    now = 100.0
    board = Board(lambda: now)
    poller = Poller(s, board)
    shards = list(plugin_of(a).host.shards.values())
    host = plugin_of(a).host
    asked = []
    host.in_order = lambda: asked.append(1) or shards
    await poller.look()
    assert [one.view.total("models") for one in board.repositories.all()] == [1]
    assert asked == [1]
    await poller.look()
    assert not poller._background._tasks  # the next one is not due yet
    now += EVERY_S
    await poller.look()
    assert poller._background._tasks
    await poller.close()
    assert isinstance(host.tally, Tally)
