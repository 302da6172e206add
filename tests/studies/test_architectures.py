"""Architectures little by little, on trainers that train nothing: what goes on, what clones may change, waiting."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import InvalidInput
from daskevo.search import AsynchronousHalving, PopulationBasedTraining, Strategy, SuccessiveHalving
from daskevo.space import Choice, Space
from daskevo.tuning import Constant, GridSpace, Trajectory, architectures, grid
from daskevo_workflows.studies.trial_lines import Lines
from tests.studies.pretending import pretended
from tests.studies.threads import ThreadCrew, figures

LAYERS = Space("layers", (Choice("units", (8, 16, 32, 64)), Choice("activation", ("relu", "tanh", None))))
PLAIN: Any = architectures(LAYERS, {"batch_size": Constant(32)})


def rates() -> GridSpace:
    return grid(learning_rate=[Constant(0.1 / 2**power) for power in range(10)], dropout=[0.0, 0.5], unit="epoch")


@pytest.mark.parametrize(
    "strategy",
    [SuccessiveHalving(1, 4, 2, candidates=8, rounds=1), AsynchronousHalving(1, 4, 2, candidates=8)],
    ids=["halving", "asha"],
)
def test_promoted_architectures_go_on(strategy: Strategy, tmp_path: Path) -> None:
    crew = ThreadCrew("t0", "t1")
    with pretended(crew, tmp_path, PLAIN) as study:
        result = study.run(strategy)
        (best,) = result.best()
        assert best.choices in [LAYERS.values(candidate) for candidate in LAYERS.enumerate()]
        assert study.evaluate(best, 7) == figures(Trajectory("pretended", best.configuration), 7)
        further = study.figures()
        came_to = max(request.until_step or 0 for request in result.requests if request.candidate == best.candidate)
    assert set(crew.trained.values()) == {1}
    found = result.figures
    assert found.trained_steps == found.unique_steps == found.total_steps
    assert found.trained_steps < sum(request.until_step or 0 for request in result.requests)
    assert further.trained_steps == crew.trained.total() == found.trained_steps + 7 - came_to


def test_another_strategy_profits_from_what_is_trained(tmp_path: Path) -> None:
    crew = ThreadCrew("t0")
    with pretended(crew, tmp_path, PLAIN) as study:
        study.run(SuccessiveHalving(1, 4, 2, candidates=12, rounds=1))
        again = study.run(AsynchronousHalving(1, 4, 2, candidates=12))
        begun = {request.candidate for request in again.requests if request.continues is None}
    assert begun == set(LAYERS.enumerate())
    assert set(crew.trained.values()) == {1}


def test_clones_change_what_is_no_part_of_the_model(tmp_path: Path) -> None:
    space: Any = architectures(LAYERS, rates())
    crew = ThreadCrew("t0", "t1")
    with pretended(crew, tmp_path, space) as study:
        for only, words in ((None, "learning_rate"), (["units", "learning_rate"], "'units'"), (["dropout"], "dropout")):
            with pytest.raises(InvalidInput, match=words):
                study.run(PopulationBasedTraining(2, 8, population=6, share=0.25, only=only, rounds=1))
        assert not crew.runs
        result = study.run(
            PopulationBasedTraining(1, 8, population=8, share=0.5, only=["learning_rate"], resample=1.0, rounds=1)
        )
        clones = [request for request in result.requests if request.parent is not None]
        by_name = {request.model_id: request for request in result.requests}
        assert clones
        for clone in clones:
            assert clone.parent is not None
            assert space.split(clone.candidate)[0] == space.split(by_name[clone.parent].candidate)[0]
    assert set(crew.trained.values()) == {1}


def test_clones_of_another_model_are_refused_whoever_asks_for_them(tmp_path: Path) -> None:
    with pretended(ThreadCrew("t0"), tmp_path, PLAIN) as study:
        with pytest.raises(InvalidInput, match="nothing to change"):
            study.run(PopulationBasedTraining(2, 8, population=6, share=0.25))
        first = study.run(SuccessiveHalving(1, 1, 2, candidates=1, rounds=1)).requests[0]
    lines = Lines(PLAIN)
    lines.add(first)
    other = next(candidate for candidate in LAYERS.enumerate() if candidate != first.candidate)
    with pytest.raises(InvalidInput, match="the option `only`"):
        lines.add(
            replace(first, number=1, candidate=other, parent=first.model_id, continues=first.model_id, until_step=2)
        )


def test_whoever_waits_waits_for_any_or_for_all(tmp_path: Path) -> None:
    first_is_known = threading.Event()
    candidates = list(LAYERS.enumerate())[:3]
    last = Trajectory("pretended", PLAIN.configuration(candidates[2]))

    def waits(trajectory: Trajectory, step: int) -> None:
        if step == 4 and trajectory.key(step) == last.key(4):
            assert first_is_known.wait(60)

    async def wait() -> None:
        futures = [asyncio.wrap_future(study.submit(candidate, 4)) for candidate in candidates]
        done, pending = await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        assert done
        assert futures[2] in pending
        first_is_known.set()
        done, pending = await asyncio.wait(futures, return_when=asyncio.ALL_COMPLETED, timeout=60)
        assert not pending
        expected = [figures(Trajectory("pretended", PLAIN.configuration(candidate)), 4) for candidate in candidates]
        assert [future.result() for future in futures] == expected

    with pretended(ThreadCrew("t0", "t1"), tmp_path, PLAIN) as study:
        asyncio.run(wait())
