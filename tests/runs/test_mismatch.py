"""What is said of a run that is not the one asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daskevo.errors import RunMismatch
from daskevo.runs.mismatch import check_identity, differences

THERE: dict[str, Any] = {
    "problem": {"name": "digits", "kind": "name", "content": "abc", "settings": {}},
    "space": {"name": "s", "choices": [["units", [4, 8]], ["skip", [False, True]]]},
    "objective": "max q",
    "seed": 0,
    "strategy": {"name": "aged evolution", "settings": {"population": 12, "sample": 4}},
    "policy": {"transfer": True, "freeze": "prefix", "control_share": 0.0, "epochs": 3, "batch_size": 32},
}


def said(**changes: Any) -> list[str]:
    with pytest.raises(RunMismatch) as caught:
        check_identity(Path("runs/x"), THERE, THERE | changes)
    head, *parts, to_do = str(caught.value).splitlines()
    assert head.startswith("runs/x holds another run")
    assert "another folder" in to_do
    assert len(caught.value.parts) == len(parts)
    return [part.strip() for part in parts]


def test_the_same_is_the_same_whatever_the_types() -> None:
    check_identity(
        Path("x"), THERE, THERE | {"space": {"name": "s", "choices": (("units", (4, 8)), ["skip", [False, True]])}}
    )
    assert differences(THERE, THERE | {"evaluations": 5}) == {}


@pytest.mark.parametrize("one", [1, True, 1.0])
def test_options_of_other_types_are_another_space_but_settings_are_the_same(one: Any) -> None:
    def asked(first: Any) -> dict[str, Any]:
        return THERE | {"space": {"name": "s", "choices": [["bias", [first, 0]]]}, "seed": first}

    assert list(differences(asked(1), asked(one))) == ([] if type(one) is int else ["space.bias"])


def test_the_function_that_makes_the_hyper_parameters_of_a_study_counts() -> None:
    def study(builder: str | None, python: str = "3.12") -> dict[str, Any]:
        space = {**THERE["space"], "builder": builder, "unit": "epoch"}
        return THERE | {"space": space, "problem": {**THERE["problem"], "made": {"python": python}}}

    assert differences(study("a"), study("a")) == {}
    assert list(differences(study("a"), study("b"))) == ["space.?made by"]
    # Each Python writes a syntax tree in its own way.
    assert differences(study("a"), study("b", "3.13")) == {}
    with pytest.raises(RunMismatch, match="the function that makes hyper-parameters of the choices has changed"):
        check_identity(Path("x"), study("a"), study("b"))


def test_each_part_is_said_with_both_values() -> None:
    policy = {**THERE["policy"], "transfer": False, "control_share": 0.5}
    strategy = {"name": "aged evolution", "settings": {"population": 50, "sample": 4, "beta": 2.0}}
    assert said(seed=4, objective="min loss", policy=policy, strategy=strategy) == [
        'objective: "max q" there, "min loss" here',
        "seed: 0 there, 4 here",
        "population: 12 there, 50 here",
        "transfer: true there, false here",
        "control share: 0.0 there, 0.5 here",
        "beta: none there, 2.0 here",
    ]


def test_what_follows_from_another_problem_or_strategy_is_not_said_apart() -> None:
    problem = {"name": "flights", "kind": "file", "content": "xyz", "settings": {"rows": 5}}
    space = {"name": "t", "choices": [["layers", [1]]]}
    policy = {**THERE["policy"], "epochs": 1}
    strategy = {"name": "random", "settings": {"keep": 50}}
    assert said(problem=problem, space=space, objective="max auc", policy=policy, strategy=strategy, seed=1) == [
        'problem: "digits" there, "flights" here',
        "seed: 0 there, 1 here",
        'strategy: "aged evolution" there, "random" here',
    ]


def test_a_problem_that_has_changed_is_said_with_the_choices_that_have() -> None:
    problem = {**THERE["problem"], "content": "abd"}
    space = {"name": "s", "choices": [["units", [4, 8, 16]], ["skip", [False, True]], ["act", ["relu"] * 40]]}
    first, *choices = said(problem=problem, space=space)
    assert first == "problem: its source has changed since the run was begun"
    assert choices[0] == "options of units: [4, 8] there, [4, 8, 16] here"
    assert choices[-1].startswith('options of act: none there, ["relu", "relu"')
    assert all(len(choice) < 220 for choice in choices)
    older = {**THERE["problem"], "parts": {"build": "1", "data": "2", "EPOCHS": "3"}}
    newer = {**problem, "parts": {"build": "9", "data": "2", "head": "4"}}
    with pytest.raises(
        RunMismatch, match="has changed since the run was begun: build, EPOCHS, head\nUse the problem as it"
    ):
        check_identity(Path("x"), THERE | {"problem": older}, THERE | {"problem": newer})
    assert differences(THERE | {"problem": older}, THERE | {"problem": {**older, "parts": {}}}) == {}
    swapped = {"name": "s", "choices": THERE["space"]["choices"][::-1]}
    assert said(space=swapped) == ['order of the space: ["units", "skip"] there, ["skip", "units"] here']


def passed(**parts: Any) -> dict[str, Any]:
    return {"policy": {**THERE["policy"], "passed": {"callbacks": ["Stop"], **parts}}}


def compared(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    return sorted(differences(THERE | there, THERE | here))


def test_callbacks_that_were_passed_count_where_both_have_looked() -> None:
    one = passed(digest="1", parts={"callbacks.rate": "1", "same": "2"}, compiled="Python 3.12, Keras 3.13")
    other = passed(digest="3", parts={"callbacks.rate": "3", "same": "2"}, compiled="Python 3.12, Keras 3.13")
    assert compared(one, one) == []
    assert compared(one, {}) == compared({}, one) == [], "an older run doesn't say"
    assert compared(one, passed(digest="3", compiled="Python 3.12, Keras 3.14")) == [], "nobody can tell"
    assert compared(one, passed(callbacks=[])) == ["policy.passed.callbacks"]
    assert compared(one, passed(unknown=["a file"])) == ["policy.passed.unknown"]
    with pytest.raises(RunMismatch, match=r"what they call, read or hold has changed: callbacks\.rate\n"):
        check_identity(Path("x"), THERE | one, THERE | other)
    with pytest.raises(RunMismatch, match=r'callbacks: nobody can tell .*: a file\n.*problem_version = "1"'):
        check_identity(Path("x"), THERE | passed(unknown=["a file"]), THERE | passed(unknown=["a file"]))


def test_a_space_that_was_mutated_in_another_way_is_said_so() -> None:
    grown = {"name": "s", "bases": [], "steps": 3}
    with pytest.raises(RunMismatch, match="this version of daskevo mutates its candidates in another way, by one step"):
        check_identity(
            Path("x"), THERE | {"space": grown}, THERE | {"space": {**grown, "mutation": "one step at most"}}
        )
