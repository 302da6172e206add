"""Which models a search still needs, told by DeepHyper's own evaluator of threads: no cluster, no Keras."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("deephyper", reason="DeepHyper isn't installed: pip install deephyper")

import ConfigSpace as cs
from deephyper.evaluator import Evaluator, HPOJob
from deephyper.evaluator.storage import MemoryStorage
from deephyper.hpo import HpProblem

from daskevo.errors import InvalidInput
from daskevo_plugins.deephyper import CBO, AgedEvolution, RandomSearch, RegularizedEvolution
from daskevo_plugins.deephyper.checkpoints import parameter, restore

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")

POPULATION = {"population_size": 4, "sample_size": 2}
CASES = {
    CBO: {"keep": 4, "n_initial_points": 4, "surrogate_model": "DUMMY"},
    RandomSearch: {"keep": 4},
    RegularizedEvolution: POPULATION,
    AgedEvolution: POPULATION,
}
EVERY = pytest.mark.parametrize("kind", CASES)


_numbers = itertools.count()


def problem() -> HpProblem:
    """Of numbers, and of options that a file of commas doesn't keep."""
    made = HpProblem()
    for name in "ab":
        made.add((0, 99), name)
    made.add(["null", "16", "[1]"], "layer")
    return made


def sometimes(job: Any) -> dict[str, Any]:
    """An objective of few values, so that several are equal; every fifth configuration fails, and names a model."""
    objective = "F_some" if job["b"] % 5 == 0 else float(job["a"] % 3)
    return {"objective": objective, "metadata": {"model_id": f"model {next(_numbers)}"}}


def nameless(job: Any) -> float:
    return float(job["a"])


def two(job: Any) -> dict[str, Any]:
    return {"objective": (float(job["a"]), float(job["b"])), "metadata": {"model_id": job.id}}


def searched(search: Any, run: Any, evaluations: int) -> Any:
    evaluator = Evaluator.create(run, method="thread", method_kwargs={"num_workers": 3})
    return search.search(evaluator, max_evals=evaluations, max_evals_strict=True)


def needed(kind: Any, frame: Any) -> list[str]:
    """The models that a search needs, by its frame."""
    fine = frame[~frame["objective"].astype(str).str.startswith("F")]
    if kind in (CBO, RandomSearch):
        best = fine.assign(objective=fine["objective"].astype(float))
        fine = best.sort_values("objective", ascending=False, kind="stable")[:4]
    return list(fine["m:model_id"][-4:])


@EVERY
def test_who_stays_and_who_leaves(kind: Any, tmp_path: Path) -> None:
    left: list[str] = []
    search = kind(problem(), random_state=5, log_dir=str(tmp_path), on_leave=left.append, **CASES[kind])
    frame = searched(search, sometimes, 23)
    assert len(frame) == 23
    failed = frame["objective"].astype(str).str.startswith("F")
    assert 0 < failed.sum() < 15
    assert search.living_models == needed(kind, frame)
    assert len(search.living_models) == 4
    assert sorted(left) == sorted(set(frame["m:model_id"]) - set(search.living_models))
    # A second search of the same object goes on.
    more = searched(search, sometimes, 10)
    assert len(more) == 33
    assert search.living_models == needed(kind, more)
    assert sorted(left) == sorted(set(more["m:model_id"]) - set(search.living_models))
    assert not search.gathered


@pytest.mark.parametrize("kind", [CBO, AgedEvolution])
def test_a_search_that_goes_on_from_its_file(kind: Any, tmp_path: Path) -> None:
    before = kind(problem(), random_state=5, log_dir=str(tmp_path), **CASES[kind])
    frame = searched(before, sometimes, 12)
    left: list[str] = []
    options = {**CASES[kind], "checkpoint_restart": True}
    after = kind(problem(), random_state=6, log_dir=str(tmp_path), on_leave=left.append, **options)
    whole = searched(after, sometimes, 6)
    assert list(whole["m:model_id"][:12]) == list(frame["m:model_id"])
    assert after.living_models == needed(kind, whole)
    assert set(left) == set(whole["m:model_id"]) - set(after.living_models)
    for name in "ab":
        assert list(whole[f"p:{name}"][:12]) == list(frame[f"p:{name}"])
    assert list(whole["p:layer"][:12]) == list(frame["p:layer"])
    assert [str(objective) for objective in whole["objective"][:12]] == list(map(str, frame["objective"]))


@EVERY
def test_run_functions_that_name_no_model(kind: Any, tmp_path: Path) -> None:
    left: list[str] = []
    search = kind(problem(), random_state=5, log_dir=str(tmp_path), on_leave=left.append, **CASES[kind])
    assert len(searched(search, nameless, 9)) == 9
    assert search.living_models == left == []
    # Told by hand, without an evaluator.
    search.tell([({"a": 1, "b": 1, "layer": "16"}, 1.0)])
    assert search.living_models == left == []


def test_of_several_objectives_all_stay(tmp_path: Path) -> None:
    left: list[str] = []
    search = CBO(problem(), log_dir=str(tmp_path), surrogate_model="DUMMY", keep=2, on_leave=left.append)
    frame = searched(search, two, 6)
    assert sorted(search.living_models) == sorted(frame["m:model_id"])
    assert not left


def test_children_are_of_the_population(tmp_path: Path) -> None:
    search = AgedEvolution(problem(), random_state=0, log_dir=str(tmp_path), **POPULATION)
    frame = searched(search, sometimes, 40)
    children = frame[frame["m:parent"].notna()]
    assert len(children) > 20
    rows = frame.set_index("m:model_id")
    for _, child in children.iterrows():
        parent = rows.loc[child["m:parent"]]
        assert not str(parent["objective"]).startswith("F")
        assert sum(parent[f"p:{name}"] != child[f"p:{name}"] for name in (*"ab", "layer")) == 1


@pytest.mark.parametrize(
    ("hyperparameter", "read", "was"),
    [
        (cs.CategoricalHyperparameter("x", ["null", "a"]), math.nan, "null"),
        (cs.CategoricalHyperparameter("x", ["16", "a"]), 16, "16"),
        (cs.CategoricalHyperparameter("x", [False, True]), np.True_, True),
        (cs.CategoricalHyperparameter("x", [1, 3, 2]), "3", 3),
        (cs.OrdinalHyperparameter("x", [0.1, 0.3]), 0.30000000000000004, 0.3),
        (cs.Constant("x", "NA"), math.nan, "NA"),
        (cs.Integer("x", (1, 9)), np.int64(3), 3),
        (cs.Float("x", (0, 9)), 0.25, 0.25),
        (cs.CategoricalHyperparameter("x", ["a", "b"]), "c", "c"),
    ],
)
def test_values_that_a_file_has_changed(hyperparameter: Any, read: Any, was: Any) -> None:
    found = parameter(hyperparameter, read)
    assert (found, type(found)) == (was, type(was))


def test_objectives_that_a_file_has_changed() -> None:
    job = HPOJob("0.0", {}, None, MemoryStorage())
    for read, was in (("0.5", 0.5), ("F_some", "F_some"), (0.5, 0.5), (["1", "F"], [1.0, "F"])):
        job.set_output({"objective": read})
        restore(job, problem().space)
        assert job.objective == was


@pytest.mark.parametrize("keep", [0, -1, 2.0, True, None])
def test_numbers_that_keep_nothing(keep: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="from 1"):
        RandomSearch(problem(), log_dir=str(tmp_path), keep=keep)
