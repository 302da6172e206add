"""A search that is watched: all pages live in a real browser while it runs, on real processes; metrics are told."""

from __future__ import annotations

import re
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from daskevo.deploy.worker_list import workers_of
from daskevo.search import AgedEvolution
from daskevo_workflows import nas
from daskevo_workflows.dashboard.dashboard_client import where_shown
from tests.browser import CHROMIUM, START_S, browser
from tests.workflows.gate import Gate
from tests.workflows.test_reserving_early import graph_of

EVALUATIONS = 7


@pytest.fixture(scope="module")
def shown() -> Iterator[Any]:
    """A client of a cluster that shows a dashboard."""
    import daskevo

    with daskevo.local_cluster(trainers=1, dashboard_address=":0") as cluster, cluster.get_client() as client:
        yield client


def finished(words: str) -> int:
    found = re.search(r"(\d+) of (\d+)", words)
    return int(found[1]) if found else -1


def ask_until(repository: Any, problem: Path, told: Callable[[], bool]) -> None:
    """Ask for ancestors as evaluations do: the page says how long that takes for as long as somebody asks."""
    graph = graph_of(problem, {"first": 4, "activation": "relu", "second": 3, "idle": 0})
    end = time.monotonic() + START_S
    while not told():
        assert time.monotonic() < end
        with repository.reserve(graph):
            pass


@pytest.mark.long
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_all_pages_live_while_a_search_runs(shown: Any, tiny: Callable[..., Path], tmp_path: Path) -> None:
    import daskevo

    link, why = where_shown(shown, "search")
    assert link is not None, why
    repository = daskevo.open(tmp_path / "repository", "tiny", client=shown, objective="max val_accuracy", shards=8)
    pages = ("search", "repository", "lineage")
    # It waits for whoever looks at it.
    gate = Gate(tmp_path / "gate", 1)
    problem = tiny(FIRST=(4, 8, 12), SECOND=(3, 6, 9), GATE=str(gate.folder))
    with browser(tmp_path / "browser") as tab:
        tabs = {page: tab() for page in pages}
        for page, one in tabs.items():
            one.call("Page.addScriptToEvaluateOnNewDocument", source="delete window.WebSocket")
            one.open(link.replace("/search", f"/{page}"))
            # Of several tabs the browser shows one; the others would wait until they are looked at.
            one.run("Object.defineProperty(document, 'hidden', {get: () => false})")
        assert "No search has been seen" in tabs["search"].words()
        assert "has no models yet" in tabs["lineage"].words()
        searching = threading.Thread(
            target=nas.search,
            args=(problem, AgedEvolution(population=4, sample=2)),
            kwargs={"repository": repository, "evaluations": EVALUATIONS, "run": tmp_path / "run"},
        )
        searching.start()
        try:
            tabs["search"].until("document.querySelector('main').innerText.includes('1 of 7')")
            first = tabs["search"].words()
            assert "trainer-0" in first
            assert "running" in first
            gate.let(3)
            tabs["search"].until("document.querySelector('main').innerText.includes('3 of 7')")
            tabs["lineage"].until("document.querySelectorAll('.lineage tbody tr').length > 1")
            ask_until(repository, problem, lambda: "s each" in tabs["repository"].words())
        finally:
            gate.let(1000)
            searching.join()
        tabs["search"].until("document.querySelector('main').innerText.includes('ended')")
        tabs["repository"].until("document.querySelector('main').innerText.includes('population:run-')")
        last = {page: one.words() for page, one in tabs.items()}
        assert finished(last["search"]) == EVALUATIONS
        assert "first_step" in last["search"]
        assert "from scratch" in last["lineage"]
        for one in tabs.values():
            assert one.errors == []  # nothing that the page's own rules refuse
            assert one.run("'WebSocket' in window || !document.querySelector('#still').hidden") is False
            one.look(400, 900)
            assert one.run("document.documentElement.scrollWidth") == 400
        still = tab()
        still.call("Network.enable")
        still.call("Network.setBlockedURLs", urls=["*page.js"])
        still.open(link)
        assert "does not change by itself" in still.run("document.querySelector('#still').innerText")
    # Without scripts the page has all that it has with them, and comes anew by itself.
    with urllib.request.urlopen(link, timeout=60) as answer:
        page = answer.read().decode()
    assert f"{EVALUATIONS} of {EVALUATIONS}" in page
    assert '<noscript><meta http-equiv="refresh" content="5"></noscript>' in page


@pytest.mark.long
def test_metrics_are_told_by_scheduler_and_workers(shown: Any, tmp_path: Path) -> None:
    prometheus = pytest.importorskip("prometheus_client.parser")
    import daskevo

    daskevo.open(tmp_path / "repository", "tiny", client=shown, shards=2)
    (provider,) = (worker for worker in workers_of(shown).values() if worker["name"] == "provider-0")
    links = [shown.dashboard_link.replace("/status", "/metrics")]
    links.append(f"http://{provider['host']}:{provider['services']['dashboard']}/metrics")
    names = set()
    for link in links:
        with urllib.request.urlopen(link, timeout=60) as answer:
            text = answer.read().decode()
        names |= {family.name for family in prometheus.text_string_to_metric_families(text)}
    assert {"daskevo_coordinator_shards", "daskevo_provider_queries", "daskevo_provider_query_seconds"} <= names
