"""Callbacks and functions that are passed to a search: other ones make it another run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import pytest

from daskevo.errors import RunMismatch
from daskevo.runs.mismatch import check_identity
from daskevo.search import Random
from daskevo.types import Objective
from daskevo_workflows.evaluation.transfer import Transfer
from daskevo_workflows.execution.refine import _ending
from daskevo_workflows.execution.run_identity import identity_of
from daskevo_workflows.problems import refer


def identity(callbacks: Any = (), freeze: Any = "prefix") -> dict[str, Any]:
    return identity_of(
        refer("digits"),
        Objective.parse("max val_accuracy"),
        Random(),
        seed=0,
        transfer=Transfer(freeze=freeze),
        control_share=0.0,
        epochs=None,
        callbacks=callbacks,
    )


def refused(before: dict[str, Any], after: dict[str, Any]) -> str:
    with pytest.raises(RunMismatch) as caught:
        check_identity(Path("run"), before, after)
    return str(caught.value)


def stopping(patience: int) -> list[Any]:
    return [keras.callbacks.EarlyStopping("loss", patience=patience)]


def making(patience: int) -> Callable[[], Any]:
    return lambda: stopping(patience)


def test_a_run_goes_on_with_the_callbacks_that_it_began_with() -> None:
    for make in (stopping, making):
        check_identity(Path("run"), identity(make(2)), identity(make(2)))
        assert "has changed: " in refused(identity(make(2)), identity(make(3)))
    assert 'callbacks: ["EarlyStopping"] there, [] here' in refused(identity(stopping(2)), identity())
    assert "callbacks: [] there," in refused(identity(), identity(making(2)))


def test_what_they_read_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    scope: dict[str, Any] = {"__name__": "own", "stopping": stopping, "PATIENCE": 2}
    exec("def make():\n    return stopping(PATIENCE)", scope)
    before = identity(scope["make"])
    check_identity(Path("run"), before, identity(scope["make"]))
    scope["PATIENCE"] = 3
    assert "own.PATIENCE" in refused(before, identity(scope["make"]))


class First:
    """Freezes the first layers."""

    def __init__(self, layers: int) -> None:
        self.layers = layers

    def __call__(self, layer: Any) -> bool:
        return bool(layer.index < self.layers)


def test_functions_that_freeze_count() -> None:
    for make in (
        lambda number: lambda layer: layer.index < number,
        First,
        lambda number: functools.partial(max, number),
    ):
        check_identity(Path("run"), identity(freeze=make(1)), identity(freeze=make(1)))
        assert "has changed: " in refused(identity(freeze=make(1)), identity(freeze=make(2)))


def test_callbacks_that_nobody_can_look_into_are_those_of_no_other_run(tmp_path: Path) -> None:
    class Logs(keras.callbacks.Callback):  # type: ignore[misc]
        def __init__(self, file: Any) -> None:
            super().__init__()
            self.file = file

    with (tmp_path / "log").open("w") as file:
        made = identity([Logs(file)])
        assert "callbacks: nobody can tell" in refused(made, made)
        assert _ending(3, [Logs(file)]) != _ending(3, [Logs(file)])


def test_a_winner_is_refined_once_with_the_same_callbacks() -> None:
    assert _ending(3, ()) == ""
    assert _ending(3, stopping(2)) == _ending(3, stopping(2))
    assert len({_ending(3, ()), _ending(4, ()), _ending(3, stopping(2)), _ending(3, stopping(3))}) == 4
