"""Looks at repositories: what providers tell, what changed since, and the pages of repository and lineage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from daskevo.errors import CorruptRecord
from daskevo.provider.call_counts import BOUNDS_S, Count
from daskevo_plugins import metrics
from daskevo_plugins.dashboard.board import WATCHED_S, Board
from daskevo_plugins.dashboard.lineage_page import lineage_now
from daskevo_plugins.dashboard.lineage_tree import lineage_tree
from daskevo_plugins.dashboard.page import LEAST_S, MOST_S
from daskevo_plugins.dashboard.pages import PAGES, frame
from daskevo_plugins.dashboard.poll import _read
from daskevo_plugins.dashboard.repository_page import repository_now
from daskevo_plugins.dashboard.repository_view import COUNTS, FIGURES, ModelRow, RepositoryView
from daskevo_plugins.dashboard.repository_views import EVERY_S, SHARE
from tests.plugins import test_dashboard as studies
from tests.plugins import test_search_page as searches
from tests.plugins.test_dashboard import check_harmless
from tests.workflows.reports.test_page import ATTACK, Page


def model(name: str, ancestor: str | None = None, **fields: Any) -> ModelRow:
    known = {
        "model_id": name,
        "scope": "s",
        "state": "published",
        "objective": "max score",
        "quality": 0.5,
        "step": 1,
        "ancestor": ancestor,
        "contributor": ancestor,
        "contributed": 0 if ancestor is None else 2,
        "own_bytes": 100,
        "full_bytes": 400,
        "own_tensors": 2,
        "tensors": 2 if ancestor is None else 4,
        "heirs": 0,
        "given_tensors": 0,
        "given_bytes": 0,
    }
    return ModelRow(**{**known, **fields})  # type: ignore[arg-type]


def told(
    *models: ModelRow, queries: int = 0, words: str = "one", spent_s: float = 0.0, provider: str = "p0", asked: int = 0
) -> dict[str, Any]:
    """What a coordinator with one provider tells."""
    count = [queries, 2 * queries, 0.003 * queries, [0, 0, 0, queries, *([0] * (len(BOUNDS_S) - 3))]]
    figures = dict.fromkeys(FIGURES, 0) | {"models": len(models), "stored_bytes": 300, "full_copy_bytes": 900}
    answer = {
        "figures": figures,
        "tally": dict.fromkeys(COUNTS, count),
        "shards": [[0, 2, 100, 50, 0], [1, 1, 200, 60, asked]],
        "scopes": [[words, "max score", len(models), 300, 900]],
        "labels": [[f"best:{words}", 1]],
        "models": [list(one) for one in models],
        "models_in_all": len(models),
        "spent_s": spent_s,
    }
    facts = {"root": words, "durability": "written", "shards": 2, "unserved_shards": [1], "lost_shards": []}
    facts |= {"live_attempts": 3, "unsettled": 0, "quota_bytes": 5_000, "waiting_retirements": {words: words}}
    answers = {provider: json.loads(json.dumps(answer))}
    return {"coordinator": facts, "providers": answers, "silent": {"p9": f"no answer {words}"}}


def test_what_went_on_between_two_looks_is_worked_out() -> None:
    now = [100.0]
    board = Board(lambda: now[0])
    assert "daskevo nas PROBLEM" in repository_now(board, {})
    board.repositories.take(_read("k", told(model("a"), queries=10), now[0]))
    assert "a look every 2 s" in repository_now(board, {})
    now[0] += 4.0
    board.repositories.take(_read("k", told(model("a"), queries=30, asked=8), now[0]))
    (seen,) = board.repositories.all()
    rate = seen.rates["queries"]
    assert (rate.per_s, rate.items_per_s, rate.most_s) == (5.0, 10.0, 0.005)
    assert rate.mean_s == pytest.approx(0.003)
    assert seen.asked == {0: 0, 1: 8}
    words = Page(frame("repository", repository_now(board, {}), "v")).words
    for said in (
        "3.00 ms each, 99 % below 5.00 ms",
        "67 %",
        "4.88 kiB",
        "no answer one",
        "are being opened, or their provider has gone: 1",
        "Shards, the hot",
    ):
        assert said in words, said
    # A provider that was started again counts from 0.
    now[0] += 2.0
    board.repositories.take(_read("k", told(queries=4), now[0]))
    assert board.repositories.all()[0].rates["queries"].per_s == 2.0
    # After a pause in which nobody looked, nothing is said of it.
    now[0] += 3600.0
    board.repositories.take(_read("k", told(queries=400), now[0]))
    assert board.repositories.all()[0].rates == {}


def test_looks_are_taken_as_often_as_they_are_cheap() -> None:
    now = [0.0]
    repositories = Board(lambda: now[0]).repositories
    assert repositories.due(["k"]) == ["k"]
    repositories.asking("k")
    assert repositories.due(["k"]) == []
    repositories.take(_read("k", told(spent_s=0.001), now[0]))
    now[0] = EVERY_S
    assert repositories.due(["k"]) == ["k"]
    repositories.take(_read("k", told(spent_s=1.0), now[0]))
    now[0] += 0.9 / SHARE
    assert repositories.due(["k"]) == []
    now[0] += 0.2 / SHARE
    assert repositories.due(["k"]) == ["k"]
    changes = repositories.changes
    assert repositories.due(["other"]) == ["other"]
    assert repositories.all() == []
    assert repositories.changes > changes


BAD: dict[str, Any] = {
    "nothing": lambda answer: None,
    "no figures": lambda answer: answer.pop("figures"),
    "figures below 0": lambda answer: answer["figures"].update(models=-1),
    "other buckets": lambda answer: answer["tally"].update(queries=[1, 1, 1.0, [1]]),
    "a shard of two": lambda answer: answer["shards"].append([1, 2]),
    "many models": lambda answer: answer.update(models=answer["models"] * 5_000),
    "a state that can't be one": lambda answer: answer["models"][0].__setitem__(2, "<b>"),
    "a quality that is none": lambda answer: answer["models"][0].__setitem__(4, float("nan")),
    "a long name": lambda answer: answer["models"][0].__setitem__(0, "x" * 501),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_provider_that_tells_something_else_changes_nothing(kind: str) -> None:
    answer = told(model("a"))
    if BAD[kind](answer["providers"]["p0"]) is None and kind == "nothing":
        answer["providers"]["p0"] = 7
    with pytest.raises(CorruptRecord):
        _read("k", answer, 0.0)


def test_a_look_that_came_to_nothing_is_said() -> None:
    board = Board(lambda: 0.0)
    board.repositories.failed("k", f"no answer {ATTACK}")
    for now in (repository_now, lineage_now):
        assert "tried again" in now(board, {})
    board.repositories.take(_read("k", told(), 0.0))
    board.repositories.failed("k", "no answer")
    assert "what is shown is older" in repository_now(board, {})


def test_names_that_others_may_give_are_cut_and_keep_nothing_from_being_shown() -> None:
    board = Board(lambda: 0.0)
    long = told(model("a", objective="max " + "x" * 900), provider="p" * 900)
    long["providers"]["p" * 900]["scopes"][0][1] = "max " + "x" * 900
    board.repositories.take(_read("k", long, 0.0))
    for now in (repository_now, lineage_now):
        assert "xxx…" in now(board, {})
    assert "ppp…" in repository_now(board, {})


def test_a_lineage_that_is_the_same_is_not_drawn_and_sent_again() -> None:
    now = [0.0]
    board = Board(lambda: now[0])

    def versions(*models: ModelRow) -> tuple[str, str]:
        now[0] += 2.0
        board.repositories.take(_read("k", told(*models), now[0]))
        return PAGES["repository"].version(board), PAGES["lineage"].version(board)

    first, drawn = versions(model("a"), model("b", "a")), lineage_now(board, {})
    second = versions(model("a"), model("b", "a"))
    assert (first[0] != second[0], first[1] == second[1]) == (True, True)
    assert lineage_now(board, {}) == drawn.replace('data-age="0" data-for>0 s', 'data-age="2" data-for>2 s')
    assert versions(model("a"), model("b", "a", quality=0.7))[1] != second[1]
    assert "0.7" in lineage_now(board, {})
    # What is amiss is said at once, and no longer than it is.
    board.repositories.failed("k", "no answer")
    failed = PAGES["lineage"].version(board)
    assert versions(model("a"), model("b", "a", quality=0.7))[1] != failed


def test_a_browser_is_told_when_there_may_be_more() -> None:
    now = [0.0]
    board = Board(lambda: now[0])
    assert PAGES["search"].next_s(board) == MOST_S
    assert PAGES["repository"].next_s(board) == LEAST_S  # the first look is awaited
    board.repositories.asking("k")
    board.repositories.take(_read("k", told(spent_s=0.03), now[0]))
    assert PAGES["lineage"].next_s(board) == LEAST_S  # what is asked may be another repository
    board.repositories.answered("k")
    assert PAGES["lineage"].next_s(board) == 3.0
    now[0] = 2.5
    assert PAGES["lineage"].next_s(board) == LEAST_S
    board.repositories.take(_read("k", told(spent_s=10.0), now[0]))
    assert PAGES["repository"].next_s(board) == MOST_S < WATCHED_S


def test_the_first_page_is_one_that_has_something() -> None:
    board = Board()
    assert board.front() == "search"
    board.repositories.take(_read("k", told(), 0.0))
    assert board.front() == "repository"
    board.take_study(studies.sent(studies.news_of()))
    assert board.front() == "studies"
    board.take_search(searches.sent(searches.news_of()))
    assert board.front() == "search"


def test_what_a_browser_lacks_is_said_without_its_script() -> None:
    words = " ".join(Page(frame("search", "", "v")).words.split())
    for said in ("does not change by itself", "no page of daskevo needs websockets", "loaded anew every five seconds"):
        assert said in words, said


def shape(models: Sequence[ModelRow], most: int = 100) -> list[tuple[str, int]]:
    return [(row.model.model_id, row.depth) for row in lineage_tree(models, most).rows]


def test_the_tree_has_parents_above_children_and_families_first() -> None:
    models = [model("lone"), model("b", "a"), model("a"), model("c", "b"), model("d", "a"), model("e", "gone")]
    assert shape(models) == [("a", 0), ("b", 1), ("c", 2), ("d", 1), ("e", 0), ("lone", 0)]
    rows = {row.model.model_id: row for row in lineage_tree(models).rows}
    assert (rows["b"].has_next, rows["d"].has_next, rows["c"].open) == (True, False, (False, True))
    # Where the ancestor itself is gone, who stored most of it stands above.
    kept = [model("a", state="retired"), model("f", "gone", contributor="a")]
    assert shape(kept) == [("a", 0), ("f", 1)]
    assert not lineage_tree(kept).rows[1].is_direct
    assert lineage_tree(kept).rows[0].shade is None


def test_shades_follow_the_objectives_direction() -> None:
    models = [model(str(place), quality=place / 10, objective="min loss") for place in range(3)]
    rows = lineage_tree([*models, model("none", quality=None)]).rows
    assert {row.model.model_id: row.shade for row in rows} == {"0": 1.0, "1": 0.5, "2": 0.0, "none": None}
    assert [row.model.model_id for row in rows if row.is_best] == ["0"]


def test_the_best_model_of_a_long_line_is_drawn_below_what_is_left_of_it() -> None:
    chain = [model(f"c{place:03}", f"c{place - 1:03}" if place else None, quality=place / 300) for place in range(300)]
    tree = lineage_tree(chain)
    assert len(tree.rows) <= 120
    best = next(row for row in tree.rows if row.is_best)
    assert best.model.model_id == "c299"
    tops = [row for row in tree.rows if not row.depth]
    assert [row.is_direct for row in tops] == [row.model.model_id == "c000" for row in tops]


def test_of_many_models_the_best_and_their_line_are_drawn() -> None:
    chain = [model(f"c{place:03}", f"c{place - 1:03}" if place else None, quality=0.1) for place in range(40)]
    chain[-1] = chain[-1]._replace(quality=0.99)
    crowd = [model(f"x{place:03}", "c000", quality=0.5, heirs=0) for place in range(3_000)]
    tree = lineage_tree([*crowd, *chain], 120)
    drawn = [row.model.model_id for row in tree.rows]
    assert len(drawn) == 120
    assert set(drawn) >= {one.model_id for one in chain}
    assert tree.left_out == 3_040 - 120
    assert tree.rows[0].left_out == 3_000 - 80
    board = Board(lambda: 0.0)
    board.repositories.take(_read("k", told(*crowd[:1_960], *chain), 0.0))
    content = lineage_now(board, {})
    assert "1,880 more models are not drawn" in content
    assert len(content) < 100_000


def test_models_in_a_circle_and_chains_beyond_recursion_are_drawn() -> None:
    assert len(shape([model("a", "b"), model("b", "a"), model("c", "c"), model("d", "a")])) == 4
    long = [model(f"{place:05}", f"{place - 1:05}" if place else None) for place in range(3_000)]
    assert lineage_tree(long).left_out == 3_000 - 120
    board = Board(lambda: 0.0)
    board.repositories.take(_read("k", told(*long[:120]), 0.0))
    assert "level 120" in lineage_now(board, {})


def test_words_of_others_stay_words() -> None:
    board = Board(lambda: 0.0)
    rows = [model(ATTACK, scope=ATTACK), model("b", ATTACK, scope=ATTACK), model("c", scope="other")]
    for key in ("k", "j"):
        board.repositories.take(_read(key, told(*rows, words=ATTACK, provider=ATTACK), 0.0))
    board.repositories.failed("k", ATTACK)
    for name, now in (("repository", repository_now), ("lineage", lineage_now)):
        content = now(board, {"repository": "k", "scope": ATTACK})
        check_harmless(Page(frame(name, content, PAGES[name].version(board))))
    assert "2 of 4 tensors" in lineage_now(board, {"scope": ATTACK})
    assert "from scratch" in lineage_now(board, {"scope": ATTACK})


def test_metrics_have_prometheus_names_and_values() -> None:
    count = Count()
    count.add(0.003, 7)
    count.add(99.0, 1)
    figures = {"models": 3, "stored_bytes": 10}
    counts = dict.fromkeys(COUNTS, count)

    class Part:
        def metrics(self) -> Any:
            return metrics.provider_metrics("/root", "p0", figures, counts)

    part = Part()
    found = {family.name: family for family in metrics.families([part])}
    assert found["daskevo_provider_models"].rows == [(("/root", "p0"), 3)]
    assert found["daskevo_provider_queries"].rows == [(("/root", "p0"), 8)]
    assert "daskevo_coordinator_shards" not in found
    for name, (_, kind, _) in metrics.FAMILIES.items():
        assert name.endswith(("_seconds",)) == (kind == "histogram")
        assert not name.endswith("_total")  # prometheus_client appends it
    prometheus = pytest.importorskip("prometheus_client")
    registry = prometheus.CollectorRegistry()
    registry.register(metrics.Collector([part]))
    text = prometheus.generate_latest(registry).decode()
    for line in (
        'daskevo_provider_models{provider="p0",repository="/root"} 3.0',
        'daskevo_provider_queries_total{provider="p0",repository="/root"} 8.0',
        'daskevo_provider_query_seconds_bucket{le="0.005",provider="p0",repository="/root"} 1.0',
        'daskevo_provider_query_seconds_bucket{le="+Inf",provider="p0",repository="/root"} 2.0',
        'daskevo_provider_query_seconds_sum{provider="p0",repository="/root"} 99.003',
    ):
        assert line in text


@pytest.mark.parametrize("name", [ATTACK, 'a"b\\c\nd\re{}#,= \x00', "\u2028ü" * 2_000, "/data/M\udcfcller", ""])
def test_metrics_of_hostile_names_are_of_the_format(name: str) -> None:
    prometheus = pytest.importorskip("prometheus_client")
    parser = pytest.importorskip("prometheus_client.parser")

    class Part:
        def metrics(self) -> Any:
            return metrics.provider_metrics(name, name, {"models": 3}, dict.fromkeys(COUNTS, Count()))

    registry = prometheus.CollectorRegistry()
    registry.register(metrics.Collector([part := Part()]))
    text = prometheus.generate_latest(registry).decode()
    (models, *others) = parser.text_string_to_metric_families(text)
    assert part
    assert len(others) == 2 * len(COUNTS)
    sayable = name.replace("\udcfc", "\\udcfc")
    assert models.samples[0].labels == {"repository": sayable, "provider": sayable}


def test_metrics_that_fail_cost_nobody_elses() -> None:
    class Broken:
        def metrics(self) -> Any:
            raise RuntimeError("broken")

    assert list(metrics.Collector([Broken()]).collect()) == []


def test_sights_name_what_they_are_of() -> None:
    view: RepositoryView = _read("k", told() | {"coordinator": told()["coordinator"] | {"root": None}}, 0.0)
    assert view.name == "in memory"
