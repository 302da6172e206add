"""Every strategy on three small spaces, every published space under random draws: real graphs, and no training."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest

from daskevo.models import flatten
from daskevo.search import Random, Request
from daskevo_workflows.execution.strategy_names import IN_ONE_PIECE
from daskevo_workflows.problems.attn import Attn
from daskevo_workflows.problems.building import build_candidate, graph_of, space_of
from daskevo_workflows.spaces.__main__ import made, main
from daskevo_workflows.spaces.mnasnet import mnasnet
from daskevo_workflows.spaces.nasnet import NasNet
from daskevo_workflows.spaces.published import PUBLISHED, SMALL, OfSpace, look
from tests.cases import with_long

EVALUATIONS = 8
NEEDS = {"tpe": ["optuna"], "gp": ["optuna", "torch"]}
WORDS = [word for word in IN_ONE_PIECE if all(find_spec(package) for package in NEEDS.get(word, []))]


@cache
def small(name: str) -> Any:
    return SMALL[name]()


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("word", with_long(WORDS, *(set(WORDS) - {"evolution", "tpe"})))
def test_every_strategy_on_every_kind_of_space(word: str, name: str) -> None:
    problem = small(name)
    objectives = ["min parameters", *(["max depth"] if word == "multi-objective" else [])]
    looked = look(problem, made(word), EVALUATIONS, seed=1, objectives=objectives, at_once=2)
    assert looked.run.stop[0] == "finished"
    assert len(looked.finished) == EVALUATIONS
    requests, space = looked.run.requests, space_of(problem)
    for request in requests:
        space.check(request.candidate)
    assert len({request.candidate for request in requests}) == len(requests)
    # What was evaluated are different architectures; a duplicate is one of them.
    evaluated = {tuple(looked.graphs[report.number].ids) for report in looked.finished}
    assert len(evaluated) == EVALUATIONS
    assert {tuple(graph.ids) for graph in looked.graphs.values()} == evaluated
    for report in looked.finished:
        assert report.quality == report.metrics["parameters"] == looked.graphs[report.number].parameters
    if "evolution" in word or word == "multi-objective":
        assert any(request.parent is not None for request in requests)
        assert all(_is_child(request, requests) for request in requests if request.parent is not None)


def _is_child(request: Request, requests: Any) -> bool:
    parent = next(other for other in requests if other.model_id == request.parent)
    return parent.number < request.number and parent.candidate != request.candidate


def published(name: str) -> Any:
    """Those that take long to build are made smaller."""
    if name == "attn":
        return Attn(features=96, widths=(50, 75))
    if name == "nasnet":
        return NasNet(channels=2, blocks=2)
    if name == "mnasnet":
        return OfSpace(mnasnet((32, 32, 3), 10, alpha=0.35, stages=1))
    return PUBLISHED[name]()


@pytest.mark.parametrize("name", with_long(PUBLISHED, "covertype", "mnasnet", "nasnet"))
def test_every_published_space_under_random_draws(name: str) -> None:
    """Of a space that is made again each candidate has the same graph, with weights as without."""
    problem, again = published(name), published(name)
    looked = look(problem, Random(), 2, seed=2, objectives=["min parameters"])
    assert len(looked.finished) == 2
    for request in looked.run.requests:
        candidate = space_of(again).decode(request.candidate.to_json())
        assert graph_of(again, candidate).ids == looked.graphs[request.number].ids
    first = looked.run.requests[0]
    model = build_candidate(problem, first.candidate)
    assert flatten(model).graph.ids == looked.graphs[first.number].ids
    assert model.count_params() == looked.graphs[first.number].parameters


@pytest.mark.long
def test_the_tables_are_printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskevo_workflows.spaces.__main__.PUBLISHED", {"cells": SMALL["cells"]})
    monkeypatch.setattr("daskevo_workflows.spaces.__main__.SMALL", {"layers": SMALL["layers"]})
    monkeypatch.setattr("daskevo.search.optuna_search.find_spec", lambda package: None)
    main(["--evaluations", "2"])
    told = capsys.readouterr().out
    assert "| cells |      15284 |" in " ".join(told.split(" "))
    for word in IN_ONE_PIECE:
        assert f"| {word} " in told
    assert "tpe: the strategy optuna(tpe) needs optuna, not installed here: pip install optuna" in told
