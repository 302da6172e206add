"""The tabular benchmark: the table is whole, what isn't is refused, strategies run on it as in a real run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskevo.errors import CorruptRecord, InvalidInput, LaterVersion
from daskevo.search import (
    AsynchronousHalving,
    Grid,
    PopulationBasedTraining,
    Random,
    Repeat,
    Report,
    Request,
    Stop,
    SuccessiveHalving,
    View,
)
from daskevo_workflows.execution.strategy_names import IN_ONE_PIECE
from daskevo_workflows.problems.building import graph_of
from daskevo_workflows.problems.digits import Digits
from daskevo_workflows.tabular import Table, load_table, run_on_table
from daskevo_workflows.tabular.compare import compare, made, main, shown
from daskevo_workflows.tabular.dense import Chains
from daskevo_workflows.tabular.make import SETTINGS, architecture_id, layers_of, make, train
from daskevo_workflows.tabular.table import SHIPPED

TEXT = SHIPPED.read_text()


@pytest.fixture(scope="module")
def table() -> Table:
    return load_table()


def test_the_table_is_whole(table: Table) -> None:
    assert SHIPPED.stat().st_size < 200_000
    assert len(table) == table.space.size.count == 343
    # Chains of 0 to 3 layers of six kinds.
    assert len(table.architectures) == 1 + 6 + 6**2 + 6**3
    for candidate in table.space.enumerate():
        assert len(table[candidate].qualities) == len(table.seeds) == 3
    assert all(0 <= quality <= 1 for each in table.architectures for row in each.qualities for quality in row)
    assert table.best.mean == max(each.mean for each in table.architectures)
    assert {"command", "training", "quality", "machine", "made"} <= set(table.recipe)


def test_the_table_can_be_made_anew(tmp_path: Path) -> None:
    small = {**SETTINGS, "depth": 1, "widths": [4], "epochs": 1}
    make(tmp_path / "small.json", 2, small)
    found = load_table(tmp_path / "small.json")
    assert (len(found), len(found.architectures), found.seeds, found.epochs) == (3, 3, (0, 1), 1)
    assert list(tmp_path.iterdir()) == [tmp_path / "small.json"]
    # The recipe gives the figures of the table, but for sums that another machine rounds otherwise.
    shipped = load_table()
    candidate = shipped.space.candidate({"layer0": None, "layer1": [12, "tanh"], "layer2": None})
    again: Any = train(Digits(**SETTINGS), layers_of(shipped.space, candidate), range(3))
    np.testing.assert_allclose(again["qualities"], shipped[candidate].qualities, atol=0.03)
    assert again["parameters"] == shipped[candidate].parameters == 64 * 12 + 12 + 12 * 10 + 10


def test_architectures_are_told_apart_as_by_vertex_ids() -> None:
    problem = Digits(**SETTINGS)
    space = problem.space()
    rng = np.random.default_rng(0)
    candidates = [space.sample(rng) for _ in range(6)]
    # Two of them are alike, and one is like `early`: five architectures.
    early = space.candidate({"layer0": [4, "relu"], "layer1": None, "layer2": None})
    late = space.candidate({"layer0": None, "layer1": None, "layer2": [4, "relu"]})
    pairs = {
        (graph_of(problem, candidate).ids, architecture_id(layers_of(space, candidate)))
        for candidate in (*candidates, early, late)
    }
    assert len(pairs) == len({ids for ids, _ in pairs}) == len({name for _, name in pairs}) == 5


def test_numpy_trains_as_keras_does() -> None:
    """The same weights, trained on the same batches, one epoch with a last batch that is smaller."""
    import keras

    from daskevo.models import seeded

    problem, layers = Digits(**SETTINGS), [(12, "tanh"), (32, "relu")]
    (x, y) = (part[:200] for part in problem.data().train)
    networks = Chains(64, layers, 10, [np.random.default_rng(seed) for seed in (5, 6)])
    begun = [[np.array(part[1]) for part in pair] for pair in networks._parts(networks.flat)]
    for begin in range(0, 200, 32):
        batch = slice(begin, begin + 32)
        networks.step(np.stack([x[batch]] * 2), np.stack([y[batch]] * 2), problem.learning_rate)
    with seeded(1):
        model = problem.build({"layer0": None, "layer1": list(layers[0]), "layer2": list(layers[1])})
        model.set_weights([part.reshape(-1) if part.shape[0] == 1 else part for pair in begun for part in pair])
        problem.compile(model)
        model.fit(x, y, batch_size=32, epochs=1, shuffle=False, verbose=0)
    ours = [part[1].reshape(-1) for pair in networks._parts(networks.flat) for part in pair]
    for mine, theirs in zip(ours, model.get_weights(), strict=True):
        np.testing.assert_allclose(mine, theirs.reshape(-1), atol=2e-5)
    assert not np.allclose(ours[0], begun[0][0].reshape(-1), atol=1e-3)
    assert networks.parameters == model.count_params()
    keras.backend.clear_session()


def changed(**parts: Any) -> str:
    return json.dumps({**json.loads(TEXT), **parts})


def first(**parts: Any) -> str:
    value = json.loads(TEXT)
    value["architectures"][0].update(parts)
    return json.dumps(value)


HOSTILE: dict[str, Callable[[], str]] = {
    "empty": lambda: "",
    "cut": lambda: TEXT[: len(TEXT) // 2],
    "cut at the last byte": lambda: TEXT.rstrip()[:-1],
    "a list": lambda: "[]",
    "deep": lambda: "[" * 100_000,
    "other format": lambda: changed(format="x"),
    "a file to run": lambda: changed(problem={"name": "/tmp/evil.py", "settings": {}}),
    "unknown settings": lambda: changed(problem={"name": "digits", "settings": {"x": 1}}),
    "other space": lambda: changed(space={"name": "digits", "choices": []}),
    "too few candidates": lambda: changed(candidates=json.loads(TEXT)["candidates"][:-1]),
    "no such architecture": lambda: changed(candidates=[10**6] * 343),
    "an architecture that nobody has": lambda: changed(candidates=[0] * 343),
    "twice the same": lambda: changed(architectures=[json.loads(TEXT)["architectures"][0]] * 259),
    "no seeds": lambda: changed(seeds=[]),
    "seeds that lack": lambda: changed(seeds=[0, 1, 2, 3]),
    "no epochs": lambda: changed(epochs=0),
    "epochs that lack": lambda: changed(epochs=6),
    "epochs by name": lambda: changed(epochs="5"),
    "no objective": lambda: changed(objective="accuracy"),
    "no recipe": lambda: changed(recipe=3),
    "not a number": lambda: first(qualities=[[float("nan")] * 5] * 3),
    "infinite": lambda: first(qualities=[[float("inf")] * 5] * 3),
    "text": lambda: first(qualities=[["0.9"] * 5] * 3),
    "huge": lambda: TEXT.replace('"parameters":650', '"parameters":' + "9" * 5_000),
    "negative": lambda: first(parameters=-1),
    "other id": lambda: first(id="../../etc"),
    "id of another kind": lambda: first(id=7),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_is_no_whole_table_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(HOSTILE[kind]())
    with pytest.raises(CorruptRecord) as caught:
        load_table(path)
    assert str(path) in str(caught.value)


def test_files_beyond_reason_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskevo_workflows.tabular.table.MOST_BYTES", SHIPPED.stat().st_size - 1)
    with pytest.raises(CorruptRecord, match="bytes"):
        load_table()


def test_later_and_missing_tables(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file"):
        load_table(tmp_path / "nowhere.json")
    (tmp_path / "later.json").write_text(changed(version=2))
    with pytest.raises(LaterVersion):
        load_table(tmp_path / "later.json")


@pytest.mark.parametrize("word", [word for word in IN_ONE_PIECE if word != "gp"])
def test_every_strategy_keeps_to_the_budget(word: str, table: Table) -> None:
    run = run_on_table(made(word), table, 20, seed=3)
    assert run.stop[0] == "finished"
    assert len(run.finished) == len(run.regrets) == 20
    assert len({table[request.candidate].id for request in run.requests}) == 20
    assert min(run.regrets) >= 0
    assert min(run.true_regrets) >= 0
    assert run.regrets == sorted(run.regrets, reverse=True)
    assert run.leaders[-1].quality == max(report.quality or 0 for report in run.finished)
    again = run_on_table(made(word), table, 20, seed=3)
    assert (again.requests, again.reports) == (run.requests, run.reports)


def test_duplicates_spend_nothing_and_the_space_has_an_end(table: Table) -> None:
    run = run_on_table(Grid(), table, 10_000, seed=0)
    assert run.stop[0] == "exhausted"
    assert len(run.requests) == 343
    assert len(run.finished) == 259
    assert run.regrets[-1] == 0
    assert [report.status for report in run.reports].count("duplicate") == 343 - 259


def test_a_run_sees_one_training_of_each(table: Table) -> None:
    for seed in range(3):
        run = run_on_table(Random(), table, 5, seed)
        for request, report in zip(run.requests, run.reports, strict=True):
            assert report.quality == table[request.candidate].qualities[seed][-1]
            assert report.step == table.epochs * table.steps_per_epoch
    repeated = run_on_table(Repeat(Random(), 3), table, 9, seed=0)
    assert [report.quality for report in repeated.finished][:3] == [
        row[-1] for row in table[repeated.requests[0].candidate].qualities
    ]


class Asking(Random):
    """Asks with settings of its own."""

    def __init__(self, **fields: Any) -> None:
        super().__init__()
        self.fields = fields

    def ask(self, view: View) -> list[Request] | Stop:
        answer = super().ask(view)
        if isinstance(answer, Stop):
            return answer
        return [view.request(offset, each.candidate, **self.fields) for offset, each in enumerate(answer)]


def test_shorter_trainings_are_in_the_table(table: Table) -> None:
    for fields in ({"training": {"epochs": 2}}, {"until_step": 2 * table.steps_per_epoch}):
        run = run_on_table(Asking(**fields), table, 3, seed=1, at_once=2)
        for request, report in zip(run.requests, run.reports, strict=True):
            assert report.quality == table[request.candidate].qualities[1][1]
    run = run_on_table(Asking(training={"epochs": 1}), table, 2, seed=1)
    assert [report.quality for report in run.reports] == [
        table[each.candidate].qualities[1][0] for each in run.requests
    ]
    # Of a training of two epochs in five, two fifths of the seconds.
    run = run_on_table(Asking(training={"epochs": 2}), table, 1, seed=1)
    assert run.reports[0].seconds["training"] == table[run.requests[0].candidate].seconds[1] * 2 / 5
    for fields in (
        {"training": {"epochs": 6}},
        {"training": {"epochs": 0}},
        {"training": {"batch_size": 8}},
        {"until_step": 7},
        {"sequence": [1]},
    ):
        with pytest.raises(InvalidInput, match="whole epochs"):
            run_on_table(Asking(**fields), table, 3, seed=1)


class Waiting(Random):
    """Never asks."""

    def ask(self, view: View) -> list[Request] | Stop:
        return []


def test_a_strategy_that_waits_for_ever_ends(table: Table) -> None:
    assert run_on_table(Waiting(), table, 3, seed=0).stop[0] == "waiting"


def test_several_objectives(table: Table) -> None:
    run = run_on_table(made("multi-objective"), table, 40, 0, objectives=["max val_accuracy", "min parameters"])
    assert len(run.finished) == 40
    told: list[Report] = run.finished
    assert all(report.metrics["parameters"] == report.parameters for report in told)
    with pytest.raises(InvalidInput, match="not latency"):
        run_on_table(Random(), table, 3, 0, objectives=["min latency"])


@pytest.mark.parametrize("numbers", [(0, 0, 1), (1, -1, 1), (1, 0, 0)])
def test_numbers_that_make_no_run(numbers: tuple[int, int, int], table: Table) -> None:
    with pytest.raises(InvalidInput, match="use 1 or more"):
        run_on_table(Random(), table, numbers[0], numbers[1], at_once=numbers[2])


@pytest.mark.long
def test_evolution_beats_random(table: Table) -> None:
    """The median of 100 seeds after 60 evaluations: fixed seeds, so always the same figures."""
    found, absent = compare(table, ["evolution"], evaluations=60, seeds=range(100))
    assert not absent
    assert found["evolution"].seen.shape == found["random"].true.shape == (100, 60)
    assert np.median(found["evolution"].last) < np.median(found["random"].last)
    assert found["evolution"].last.mean() < found["random"].last.mean()


def test_the_comparison_is_printed_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "regret.png"
    main(["--evaluations", "12", "--seeds", "2", "--strategies", "evolution", "grid", "gp", "--plot", str(plot)])
    told = capsys.readouterr().out
    assert all(f"| {word} " in told for word in ("random", "evolution", "grid"))
    assert "after 10" in told
    assert "after 12" in told
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_a_strategy_that_lacks_its_package_is_left_out(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskevo.search.optuna_search.find_spec", lambda package: None)
    found, absent = compare(table, ["tpe"], evaluations=3, seeds=range(2))
    assert list(found) == ["random"]
    assert "pip install optuna" in absent["tpe"]
    assert "tpe" not in shown(found, 2)


def test_an_exhausted_space_keeps_its_last_regret(tmp_path: Path) -> None:
    make(tmp_path / "small.json", 1, {**SETTINGS, "depth": 1, "widths": [4], "epochs": 1})
    found, _ = compare(load_table(tmp_path / "small.json"), ["evolution"], evaluations=9, seeds=range(2))
    assert found["evolution"].seen.shape == (2, 9)
    assert (found["evolution"].seen[:, 2:] == 0).all()


def test_halving_on_the_table_reads_on_in_the_same_training(table: Table) -> None:
    """16 candidates, of whom the four best after one epoch are trained for four: 28 epochs instead of 64."""
    steps = table.steps_per_epoch
    for seed in range(5):
        run = run_on_table(SuccessiveHalving(steps, 4 * steps, 4, candidates=16, rounds=1), table, 100, seed)
        # Duplicates count in the rung; the end is none of budget.
        assert run.stop[0] == "done"
        long = [request for request in run.requests if request.continues is not None]
        assert len(long) == 4
        for request, report in zip(run.requests, run.reports, strict=True):
            if report.status == "finished":
                assert request.until_step is not None
                epochs = request.until_step // steps
                assert report.metrics["val_accuracy"] == table[request.candidate].qualities[seed % 3][epochs - 1]
        first = [report.quality for report in run.reports[:16] if report.status == "finished"]
        continued = {run.reports[int(request.continues[-5:])].quality for request in long if request.continues}
        assert continued == set(sorted(q for q in first if q is not None)[-len(continued) :])


def test_asynchronous_halving_runs_on_the_table_and_clones_are_refused(table: Table) -> None:
    steps = table.steps_per_epoch
    run = run_on_table(AsynchronousHalving(steps, 4 * steps, 2), table, 60, 3, at_once=4)
    assert len(run.finished) == 60
    assert {request.until_step for request in run.requests} == {steps, 2 * steps, 4 * steps}
    with pytest.raises(InvalidInput, match="the model of another candidate"):
        run_on_table(PopulationBasedTraining(steps, 5 * steps, population=5), table, 60, 3, at_once=5)
