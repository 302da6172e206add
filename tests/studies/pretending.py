"""Studies on trainers that are threads and train nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from daskevo.errors import InvalidInput
from daskevo.tuning import Configuration, Constant, GridSpace, MultiStep, grid
from daskevo.types import Objective
from daskevo_workflows.studies.controller import Controller
from daskevo_workflows.studies.stored_snapshots import learn
from daskevo_workflows.studies.study import Study
from daskevo_workflows.studies.study_record import Ledger
from tests.studies.threads import ThreadCrew

OBJECTIVE = Objective.parse("min loss")


def small_grid() -> GridSpace:
    """12 trials of 16 epochs, many of which begin alike."""
    return grid(
        learning_rate=[
            Constant(0.1),
            MultiStep(0.1, (8,), 0.1),
            MultiStep(0.1, (4,), 0.1),
            MultiStep(0.1, (4, 8), 0.1),
        ],
        batch_size=[Constant(32), MultiStep(32, (4,), 2), MultiStep(32, (8,), 2)],
        unit="epoch",
    )


def constants() -> GridSpace:
    """30 trials that have no step in common."""
    return grid(
        learning_rate=[Constant(0.1 / 2**power) for power in range(10)],
        momentum=[Constant(0.9), Constant(0.95), Constant(0.99)],
        unit="epoch",
    )


def pretended(
    crew: ThreadCrew | Controller,
    folder: Path,
    space: GridSpace | None = None,
    *,
    steps: int | None = 16,
    name: str = "run",
    stored: Iterable[Any] = (),
    repository: Any = None,
    **identity: Any,
) -> Study:
    """Open a study; with a crew, one that has a controller of its own."""
    chosen = small_grid() if space is None else space
    about = {"repository": None, "repository_id": "none"}
    whole = {
        "problem": {"name": "pretended", "content": "1"},
        "space": chosen.to_json(),
        "objective": str(OBJECTIVE),
        "seed": 0,
        "strategy": {"name": "a study", "settings": {}},
        "policy": {"unit": "epoch"},
        **identity,
    }
    controller = crew if isinstance(crew, Controller) else Controller(crew)

    def ledger() -> Ledger:
        opened = Ledger(folder / name, whole, about, chosen, OBJECTIVE, "pretended")
        learn(controller.plan, stored, "pretended")
        opened.teach(controller.plan)
        return opened

    def check(configuration: Configuration, until: int) -> None:
        if "bad" in configuration.constants:
            raise InvalidInput("the problem takes no 'bad'")

    return Study(
        controller=controller,
        is_owner=controller is not crew,
        space=chosen,
        ledger=ledger,
        origin="pretended",
        setting=lambda label: label,
        check=check,
        steps=steps,
        repository=repository,
        stored=stored,
    )
