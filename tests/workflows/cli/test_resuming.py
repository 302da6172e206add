"""What a run that is there is taken up with, and what is said of it, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from daskevo.errors import InvalidInput, RunMismatch
from daskevo.runs import LabelChange, RunRecord
from daskevo.runs.folder import read_info
from daskevo.search import (
    AgedEvolution,
    AsynchronousHalving,
    Failure,
    MultiObjectiveEvolution,
    Optuna,
    Random,
    Report,
    Request,
)
from daskevo.search.continuation import continuing
from daskevo.space import Candidate
from daskevo.store.root import Root
from daskevo.types import ModelId, Objective
from daskevo_workflows.cli import main
from daskevo_workflows.cli.json_lines import NAS_KEYS
from daskevo_workflows.cli.nas import FRONT_SHOWN, STRATEGY_WORDS
from daskevo_workflows.cli.resume import SETTINGS, settle, why_ended
from daskevo_workflows.evaluation.transfer import Transfer
from daskevo_workflows.execution.run_identity import identity_of
from daskevo_workflows.execution.strategy_names import strategy_named
from daskevo_workflows.nas import STRATEGIES
from daskevo_workflows.problems import refer

TYPED: dict[str, Any] = {
    "strategy": "evolution",
    "objective": (),
    **dict.fromkeys(SETTINGS.values()),
    "seed": 0,
    "no_transfer": False,
    "freeze": "steps:300",
    "source": "best match",
    "minimum_layers": 0,
    "unfreeze_epochs": 0,
    "stretch": 0.0,
    "scope": None,
    **{f"{bound}_{name}": None for bound in ("min", "max") for name in ("parameters", "flops", "depth")},
}
MakeRun = Callable[..., RunRecord]


@pytest.fixture
def begin(tmp_path: Path) -> MakeRun:
    """Begins a run of the digits in tmp_path / "run", to be written and closed by the test."""

    def make(strategy: Any = None, **settings: Any) -> RunRecord:
        policy = {"seed": 3, "transfer": Transfer(), "control_share": 0.0, "epochs": None} | settings
        strategy = strategy or AgedEvolution(12, 4)
        identity = identity_of(refer("digits"), Objective.parse("max val_accuracy"), strategy, **policy)
        root = tmp_path / "run" / "repository"
        about = {"repository": str(root), "repository_id": Root.create(root, shards=2).repository_id, "scope": "mine"}
        return RunRecord(tmp_path / "run", identity, about)

    return make


def report(record: RunRecord, number: int, labels: tuple[LabelChange, ...] = (), **fields: Any) -> None:
    name = ModelId(f"m{number}")
    record.asked([Request(number, name, Candidate((number,)))])
    record.reported(Report(number, name, **{"status": "finished", "quality": 0.5} | fields), [], labels)


def nas(*words: str) -> Result:
    return CliRunner().invoke(main, ["nas", *words])


def test_a_run_goes_on_with_its_own_settings(begin: MakeRun, tmp_path: Path) -> None:
    begin(transfer=Transfer("none", 0.5), control_share=0.25, epochs=7).close()
    folder = tmp_path / "run"
    found = settle(folder, read_info(folder), refer("digits"), TYPED, ())
    assert found.strategy.settings == AgedEvolution(12, 4).settings
    assert found.search_options() == {
        "seed": 3,
        "transfer": Transfer("none", 0.5),
        "control_share": 0.25,
        "epochs": 7,
        "limits": {},
        "unit": None,
    }
    assert found.scope == "mine"
    typed = TYPED | {"population": 12, "seed": 3, "no_transfer": True}
    settle(folder, read_info(folder), refer("digits"), typed, ("population", "seed", "no_transfer"))


def test_a_run_that_came_to_nothing_takes_up_the_mended_problem(begin: MakeRun, tmp_path: Path) -> None:
    """With the options of the command that begins it anew, as a new run would."""
    folder, path = tmp_path / "run", tmp_path / "run" / "run.json"
    record = begin()
    report(record, 0, status="failed", quality=None, failure=Failure("build", "build() raised ValueError: no"))
    record.close("failures")
    path.write_text(path.read_text().replace(refer("digits").content, "as it was before"))
    found = settle(folder, read_info(folder), refer("digits"), TYPED, ())
    assert found.anew
    assert (found.seed, found.strategy.settings) == (0, AgedEvolution().settings)
    assert not settle(folder, None, refer("digits"), TYPED, ()).anew
    record = RunRecord(folder, read_info(folder).identity)  # type: ignore[union-attr]
    report(record, 1)
    record.close()
    with pytest.raises(RunMismatch, match="its source has changed since the run was begun"):
        settle(folder, read_info(folder), refer("digits"), TYPED, ())


def test_limits_of_size_are_the_runs_own(begin: MakeRun, tmp_path: Path) -> None:
    begin(limits={"parameters": (None, 5000)}).close()
    folder = tmp_path / "run"
    found = settle(folder, read_info(folder), refer("digits"), TYPED | {"max_parameters": 5000}, ("max_parameters",))
    assert found.limits == settle(folder, read_info(folder), refer("digits"), TYPED, ()).limits
    assert found.limits == {"parameters": (None, 5000)}
    refused = nas("digits", "--run", str(folder), "--max-parameters", "6k", "--max-depth", "3")
    assert refused.exit_code == 2
    assert "least and most parameters: [null, 5000] there, [null, 6000] here" in refused.stderr
    assert "least and most depth: none there, [null, 3] here" in refused.stderr
    assert "Without --min-depth/--max-depth, --min-parameters/--max-parameters it goes on" in refused.stderr


def test_limits_that_nothing_is_within_are_refused_without_a_cluster(tmp_path: Path) -> None:
    refused = nas("digits", "--run", str(tmp_path / "run"), "--max-depth", "2", "--min-depth", "3")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("Error: InvalidInput: ")


def test_a_random_search_goes_on_as_one(begin: MakeRun, tmp_path: Path) -> None:
    begin(Random(keep=7)).close()
    folder = tmp_path / "run"
    assert settle(folder, read_info(folder), refer("digits"), TYPED, ()).strategy.settings == {"keep": 7}
    with pytest.raises(RunMismatch, match='strategy: "random" there, "aged evolution" here'):
        settle(folder, read_info(folder), refer("digits"), TYPED, ("strategy",))


@pytest.mark.parametrize("word", sorted({*STRATEGIES} - {"gp"}))
def test_a_run_of_any_strategy_is_taken_up_with_its_own_settings(begin: MakeRun, word: str, tmp_path: Path) -> None:
    strategy = strategy_named(word, 3)
    unit = None if continuing(strategy) is None else "optimizer step"
    begin(strategy, unit=unit).close()
    found = settle(tmp_path / "run", read_info(tmp_path / "run"), refer("digits"), TYPED, ())
    assert (type(found.strategy), found.strategy.settings) == (type(strategy), strategy.settings)
    assert found.unit == unit


def test_parts_go_on_as_they_were(begin: MakeRun, tmp_path: Path) -> None:
    begin(AsynchronousHalving(2, 8, 2), unit="epoch").close()
    info, reference = read_info(tmp_path / "run"), refer("digits")
    same = settle(tmp_path / "run", info, reference, TYPED | {"steps": 8, "first": 2}, ())
    assert (same.strategy.settings["most"], same.epochs) == (8, None)  # type: ignore[index, call-overload]
    with pytest.raises(RunMismatch, match="Without --steps it goes on with its own"):
        settle(tmp_path / "run", info, reference, TYPED | {"steps": 4}, ())


@pytest.mark.parametrize(
    ("word", "epochs", "settings", "most"),
    [
        ("asha", 10, {}, 9),
        ("asha", 1, {}, 3),
        ("halving", 16, {"eta": 4}, 16),
        ("hyperband", 20, {"first": 2, "eta": 2}, 16),
        ("median", 10, {"first": 4}, 12),
        ("median", 13, {"first": 4}, 12),
        ("asha", 10, {"most": 27}, 27),
        ("asha", 10, {"steps": 27, "most": 9}, 27),
    ],
)
def test_the_last_rung_is_within_the_problems_epochs(
    word: str, epochs: int, settings: dict[str, int], most: int
) -> None:
    made = continuing(strategy_named(word, epochs, **settings))
    assert made is not None
    assert made.most == most


def test_a_setting_of_another_strategy_is_named_with_those_that_have_it() -> None:
    with pytest.raises(InvalidInput, match="eta is a setting of halving, hyperband, asha, and the strategy is random"):
        strategy_named("random", 3, eta=2)
    # A grid has a `most` of its own, which is something else.
    for word in ("random", "grid"):
        with pytest.raises(InvalidInput, match=rf"^steps is a setting of halving, hyperband, asha, median, .* {word}:"):
            strategy_named(word, 3, steps=9)


def test_several_objectives_are_the_runs_own(tmp_path: Path) -> None:
    reference, goals = refer("digits"), ["max val_accuracy", "min parameters"]
    identity = identity_of(
        reference,
        Objective.parse_all(goals),
        AgedEvolution(12, 4),
        seed=0,
        transfer=Transfer(),
        control_share=0.0,
        epochs=None,
    )
    RunRecord(tmp_path / "run", identity, {"repository": None, "repository_id": "x", "scope": "mine"}).close()
    info = read_info(tmp_path / "run")
    assert settle(tmp_path / "run", info, reference, TYPED, ()).objective == goals
    with pytest.raises(RunMismatch, match="Without --objective it goes on with its own"):
        settle(tmp_path / "run", info, reference, TYPED | {"objective": ("max val_accuracy",)}, ("objective",))


def test_a_front_is_told_to_people_and_to_programs(tmp_path: Path) -> None:
    goals, root, count = ["max val_accuracy", "min parameters"], tmp_path / "run" / "repository", FRONT_SHOWN + 3
    settings: dict[str, Any] = {"seed": 0, "transfer": Transfer(), "control_share": 0.0, "epochs": None}
    identity = identity_of(refer("digits"), Objective.parse_all(goals), MultiObjectiveEvolution(), **settings)
    about = {"repository": str(root), "repository_id": Root.create(root, shards=2).repository_id, "scope": "mine"}
    record = RunRecord(tmp_path / "run", identity, about)
    for number in range(count):
        quality = 0.5 - number / 100
        metrics = {"val_accuracy": quality, "parameters": 90_000.0 - number, "loss": 1.0}
        name = ModelId(f"m{number}")
        record.asked([Request(number, name, Candidate((0, 0, 0, 0)))])
        record.reported(Report(number, name, "finished", quality=quality, metrics=metrics), [], [])
    record.close("finished")
    for name in ("best.keras", "report.html"):  # newer than the last report: not written again
        (tmp_path / "run" / name).touch()
    told = nas("digits", "--run", str(tmp_path / "run"), "--evaluations", str(count), "--json")
    assert told.exit_code == 0, told.output
    line = json.loads(told.stdout)
    assert list(line) == [*NAS_KEYS, "front"]
    assert len(line["front"]) == count
    assert line["front"][0] == {"model": "m0", "metrics": {"val_accuracy": 0.5, "parameters": 90_000.0}}
    assert "1. val_accuracy 0.50  parameters 90,000  m0" in told.stderr
    assert "and 3 more, best first by val_accuracy" in told.stderr


def test_several_objectives_have_the_strategy_that_looks_at_all(tmp_path: Path) -> None:
    def strategy(objectives: tuple[str, ...], *given: str) -> str:
        options = TYPED | {"objective": objectives}
        return settle(tmp_path / "run", None, refer("digits"), options, given).strategy.name

    goals = ("max val_accuracy", "min parameters")
    assert strategy(goals) == MultiObjectiveEvolution.name
    assert strategy(goals, "strategy") == strategy(goals[:1]) == strategy(()) == AgedEvolution.name


@pytest.mark.parametrize(
    "objectives", [["best"], ["max a", "min a"], ["min own_bytes", "max val_accuracy"], ["max val_accuracy", ""]]
)
def test_objectives_that_are_none_are_refused_without_a_cluster(objectives: list[str], tmp_path: Path) -> None:
    options = [word for objective in objectives for word in ("--objective", objective)]
    result = nas("digits", "--run", str(tmp_path / "run"), *options)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: InvalidInput: ")


@pytest.mark.parametrize(("word", "missing"), [("tpe", {"optuna"}), ("gp", {"optuna", "torch"}), ("gp", {"torch"})])
def test_a_strategy_that_lacks_a_package_is_refused_without_a_cluster(
    begin: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, missing: set[str]
) -> None:
    """When it is asked for, and when a run goes on that has it."""

    def no_cluster(*arguments: Any) -> Any:
        raise AssertionError("a cluster was started")

    def find_spec(name: str) -> object | None:
        return None if name in missing else object()

    monkeypatch.setattr("daskevo_workflows.cli.run_frame.a_cluster", no_cluster)
    monkeypatch.setattr("daskevo.search.optuna_search.find_spec", lambda name: object())
    begin(Optuna(word)).close()  # type: ignore[arg-type]
    monkeypatch.setattr("daskevo.search.optuna_search.find_spec", find_spec)
    for options in (["--run", str(tmp_path / "new"), "--strategy", word], ["--run", str(tmp_path / "run")]):
        result = nas("digits", *options)
        assert result.exit_code == 2, result.output
        assert result.stderr.startswith("Error: InvalidInput: ")
        assert f"pip install {' '.join(sorted(missing))}" in result.stderr
    assert not (tmp_path / "new").exists()


def test_a_space_that_is_too_large_for_a_grid_is_refused_without_a_cluster(tmp_path: Path) -> None:
    result = nas("flights", "--strategy", "grid", "--run", str(tmp_path / "run"))
    assert result.exit_code == 2
    assert "a grid takes 100000 candidates at most" in result.stderr
    assert "dashboard" not in result.stderr
    assert not (tmp_path / "run").exists()


def test_the_command_knows_every_strategy_by_its_word() -> None:
    assert sorted(STRATEGY_WORDS) == sorted(STRATEGIES)


@pytest.mark.parametrize("what", ["strategy", "freeze"])
def test_what_only_python_can_take_up_is_said(begin: MakeRun, tmp_path: Path, what: str) -> None:
    class Mine(Random):
        name = "mine"

    begin(
        Mine() if what == "strategy" else None, **({"transfer": Transfer(freeze=len)} if what == "freeze" else {})
    ).close()
    result = nas("digits", "--run", str(tmp_path / "run"))
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: RunMismatch: ")
    assert "from Python" in result.stderr


def test_another_run_is_refused_with_what_differs(begin: MakeRun, tmp_path: Path) -> None:
    begin().close()
    result = nas("digits", "--run", str(tmp_path / "run"), "--seed", "4", "--population", "50", "--no-transfer")
    assert result.exit_code == 2
    assert [line.strip() for line in result.stderr.splitlines()[1:4]] == [
        "seed: 3 there, 4 here",
        "population: 12 there, 50 here",
        "transfer: true there, false here",
    ]
    assert "Without --no-transfer, --seed, --population it goes on with its own" in result.stderr
    other = nas("flights", "--run", str(tmp_path / "run"))
    assert 'problem: "digits" there, "flights" here' in other.stderr


def test_nothing_is_left_when_the_evaluations_are_finished(begin: MakeRun, tmp_path: Path) -> None:
    record = begin()
    for number in range(3):
        report(record, number)
    record.close("finished")
    assert why_ended(tmp_path / "run", 3) == ("finished", "3 evaluations finished")
    assert why_ended(tmp_path / "run", 4) is None


def test_labels_to_be_changed_are_something_left(begin: MakeRun, tmp_path: Path) -> None:
    record = begin()
    report(record, 0, (LabelChange("release", "population:x", ModelId("m0")),))
    record.close("killed")
    assert why_ended(tmp_path / "run", 1) is None


def test_a_space_without_more_has_nothing_left_for_any_number(begin: MakeRun, tmp_path: Path) -> None:
    record = begin()
    report(record, 0)
    record.event("exhausted", "all 8 candidates have been asked for")
    record.close("exhausted")
    assert why_ended(tmp_path / "run", 100) == ("exhausted", "all 8 candidates have been asked for")


def test_a_run_that_failed_says_so_again(begin: MakeRun, tmp_path: Path) -> None:
    record = begin()
    for number in range(20):
        report(record, number, status="failed", quality=None, failure=Failure("error", "ValueError: no"))
    record.close("failures")
    result = nas("digits", "--run", str(tmp_path / "run"), "--evaluations", "5")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: RunFailed: ")
    assert "the last failure: ValueError: no" in result.stderr
    assert why_ended(tmp_path / "run", 21) is None  # more failures are allowed
