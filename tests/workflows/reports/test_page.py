"""The page: whatever the run was, it is one well-formed file that loads nothing, says everything and runs nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree

import pytest

from daskevo.errors import InvalidInput
from daskevo.types import Objective
from daskevo_workflows.reports.figures.phases import phases
from daskevo_workflows.reports.page import render
from daskevo_workflows.reports.series import Happening
from tests.cases import with_long

VOID = {"meta", "br", "hr", "img", "link", "input"}
SHAPES = {"path", "use", "circle", "rect", "image", "line", "polygon"}


class Page(HTMLParser):
    """Reads a page, checks that its tags are balanced, and collects what the tests ask about."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.ids: Counter[str] = Counter()
        self.references: list[str] = []
        self.handlers: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for name, value in attrs:
            if name == "id":
                self.ids[value or ""] += 1
            if name in ("src", "href", "xlink:href", "action", "data"):
                self.references.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words += data + "\n"


def drawings(text: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


CASES: dict[str, Any] = {
    "empty": lambda make: [make(0)],
    "one evaluation": lambda make: [make(1, failures=0)],
    "failures only": lambda make: [make(6, failures=1)],
    "a hundred": lambda make: [make(100, workers=4)],
    "a thousand": lambda make: [make(1000, workers=40)],
    "two": lambda make: [make(60, transfer=False, label="no transfer"), make(60, seed=1, label="with transfer")],
    "one empty of two": lambda make: [make(30, label="a"), make(0, label="b")],
    "both empty": lambda make: [make(0, label="a"), make(0, label="b")],
}


@pytest.fixture(scope="module")
def rendered(make_run: Any) -> Callable[[str], str]:
    """Renders each case once: its drawings take a second."""
    return cache(lambda case: render(CASES[case](make_run), version="1.2.3"))


@pytest.mark.parametrize("case", with_long(CASES, "a thousand"))
def test_any_run_makes_a_well_formed_page_that_loads_nothing(case: str, rendered: Callable[[str], str]) -> None:
    text = rendered(case)
    page = Page(text)
    assert page.tags["script"] == page.tags["link"] == page.tags["iframe"] == 0
    assert all(reference.startswith(("#", "data:image/png")) for reference in page.references), page.references[:3]
    assert not [name for name, times in page.ids.items() if times > 1]
    assert "url(http" not in text
    assert "@import" not in text
    for part in ("What was run", "What was inherited", "evaluations"):
        assert part in page.words


@pytest.mark.parametrize("case", ["one evaluation", "a hundred", "two"])
def test_every_figure_has_title_description_units_and_marks(case: str, rendered: Callable[[str], str]) -> None:
    figures = drawings(rendered(case))
    assert len(figures) == (9 if case == "two" else 5)
    for figure in figures:
        space = "{http://www.w3.org/2000/svg}"
        assert figure.get("role") == "img"
        title, description = figure.find(f"{space}title"), figure.find(f"{space}desc")
        assert title is not None
        assert title.text
        assert description is not None
        assert len(description.text or "") > 60
        words = " ".join("".join(text.itertext()) for text in figure.iter(f"{space}text"))
        assert re.search(r"\((s|min|h|finished|MiB)\)", words), words
        assert sum(element.tag.removeprefix(space) in SHAPES for element in figure.iter()) > 5


@pytest.mark.long
def test_a_thousand_evaluations_stay_a_page_that_a_browser_likes(make_run: Any) -> None:
    text = render([make_run(1000, workers=40)], version="1")
    assert len(text) < 3_000_000
    assert len(render([make_run(9000, failures=0)], version="1")) < 3_000_000


def test_two_runs_are_compared_by_targets_of_the_one_that_inherited_less(
    rendered: Callable[[str], str],
) -> None:
    words = Page(rendered("two")).words
    for row in (
        "no transfer's high quality",
        "no transfer's best",
        "… of the last quarter",
        "with transfer / no transfer",
    ):
        assert row in words


ATTACK = '<script>alert(1)</script><img src=x onerror="alert(2)">]]>--><!--{{ 7*7 }}$\\frac{'


def test_words_of_users_and_exceptions_stay_words(make_run: Any) -> None:
    run = make_run(40, failures=0.3, label=ATTACK, objective="max val_auc")
    evaluations = tuple(
        replace(
            e,
            model_id=ATTACK + str(e.number),
            worker=ATTACK,
            reason=ATTACK if e.status == "failed" else "",
            no_more=ATTACK,
            no_more_words=ATTACK,
            metrics={ATTACK + "3": float(e.number)},
            parent=ATTACK,
            ancestor=ATTACK if e.ancestor else None,
            seconds={**e.seconds, ATTACK: 0.1},
            choices={ATTACK: ATTACK},
        )
        for e in run.evaluations
    )
    hostile = replace(
        run,
        evaluations=evaluations,
        run_id=ATTACK,
        state=ATTACK,
        objective=Objective("max", ATTACK),
        others=(Objective("min", ATTACK + "3"),),
        facts={"problem": ATTACK, ATTACK: ATTACK},
        happenings=(Happening(1.0, ATTACK, 3, ATTACK),),
    )
    for runs in ([hostile], [hostile, replace(hostile, label=ATTACK + "2")]):
        text = render(runs, version="1")
        page = Page(text)
        assert page.tags["script"] == page.tags["img"] == 0
        assert page.handlers == []
        assert ATTACK in page.words
        assert drawings(text)


def test_control_characters_do_not_reach_the_page(make_run: Any) -> None:
    run = make_run(5, failures=1)
    nasty = replace(
        run, evaluations=tuple(replace(e, reason="a\x00b\x1b[31m\u202ec", worker="w\x01") for e in run.evaluations)
    )
    text = render([nasty], version="1")
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e]", text)
    assert drawings(text)


def test_qualities_are_never_negated(make_run: Any) -> None:
    words = Page(render([make_run(30, objective="min val_loss", failures=0)], version="1")).words
    best = min(e.quality for e in make_run(30, objective="min val_loss", failures=0).evaluations)
    assert f"{best:.4g}" in words
    assert "smaller is better" in words


def test_what_a_process_prepares_once_is_no_cost_of_an_evaluation(make_run: Any) -> None:
    """It falls on the first evaluations, which are from scratch: the bars would compare nothing else."""
    run = make_run(6, failures=0, workers=2)
    slow = [replace(e, seconds={"prepare": 40.0 if e.number < 2 else 1e-5, **e.seconds}) for e in run.evaluations]
    drawing = phases([replace(run, evaluations=tuple(slow))])
    assert drawing is not None
    assert "took on average 40.00 s, 2 times" in drawing.caption
    bars = phases([run])
    assert bars is not None
    totals = re.compile(r">\s*([\d.]+ m?s)\s*<")
    assert totals.findall(drawing.svg) == totals.findall(bars.svg) != []
    assert "prepare" not in drawing.svg


def test_a_run_named_after_its_problem_says_it_once(make_run: Any) -> None:
    def title(label: str) -> str:
        run = replace(make_run(0, label=label), facts={"problem": "flights"})
        return render([run], version="1").split("<title>")[1].split("</title>")[0]

    assert title("flights") == "flights"
    assert title("flights-seed0") == "flights-seed0"
    assert title("mine") == "flights: mine"


def test_the_same_runs_give_the_same_page(make_run: Any) -> None:
    assert render([make_run(20)], version="1") == render([make_run(20)], version="1")


def test_two_objectives_or_more_arms_than_colours_are_refused(make_run: Any) -> None:
    with pytest.raises(InvalidInput, match="different objectives"):
        render([make_run(1), make_run(1, objective="min val_loss")], version="1")
    with pytest.raises(InvalidInput, match="7 kinds"):
        render([make_run(1, label=f"run {number}") for number in range(7)], version="1")


def test_models_of_the_same_run_go_by_their_number(make_run: Any) -> None:
    run = make_run(30, failures=0)
    page = render([run], version="1")
    moved = run.transferred[-1]
    assert f'<span class="id">{moved.model_id}</span>' in page
    assert f'<span class="id" title="{moved.ancestor}">{moved.ancestor.rpartition("-")[2]}</span>' in page
