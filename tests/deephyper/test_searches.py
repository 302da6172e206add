"""DeepHyper's searches, and ours, on real trainers: numbers of evaluations, living models, stoppers, faults, deaths."""

from __future__ import annotations

import types
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

deephyper = pytest.importorskip("deephyper", reason="DeepHyper isn't installed: pip install deephyper")

from deephyper.evaluator import HPOJob, JobStatus, RunningJob  # noqa: E402
from deephyper.hpo import HpProblem  # noqa: E402
from deephyper.stopper import ConstantStopper, MedianStopper  # noqa: E402

import daskevo  # noqa: E402
from daskevo.errors import ClusterError, InvalidInput, NoTrainer  # noqa: E402
from daskevo_plugins.deephyper import (  # noqa: E402
    AgedEvolution,
    DaskEvaluator,
    DaskStorage,
    RandomSearch,
    RegularizedEvolution,
    to_hp_problem,
    transfer_run_function,
)
from daskevo_plugins.deephyper.evaluator import Evaluation, evaluate  # noqa: E402
from daskevo_workflows.problems.digits import Digits  # noqa: E402
from tests.deephyper import functions  # noqa: E402

pytestmark = [
    pytest.mark.processes,
    # DeepHyper's own, of its libraries.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with daskevo.local_cluster(trainers=2, dashboard_address=None) as cluster, cluster.get_client() as found:
        yield found


@pytest.fixture
def repository(client: Any) -> Iterator[Any]:
    made = daskevo.open(None, f"s-{uuid.uuid4().hex[:8]}", client=client, objective="min loss", shards=8)
    yield made
    for model in made.models():
        made.retire(model.model_id)


def problem() -> HpProblem:
    made = HpProblem()
    made.add([4, 8], "first")
    made.add(["relu", "tanh"], "activation")
    made.add([3, 5, 7, 9], "second")
    return made


def evaluated(evaluator: DaskEvaluator, configurations: list[dict[str, Any]]) -> list[HPOJob]:
    """Evaluate configurations without a search, and return their jobs in order."""
    evaluator._job_class = HPOJob
    evaluator.submit(configurations)
    jobs = evaluator.gather("ALL")
    evaluator.close()
    return sorted(jobs, key=lambda job: int(job.id.split(".")[1]))


POPULATION = {"population_size": 3, "sample_size": 2}


@pytest.mark.long
def test_exact_evaluations_and_living_models(client: Any, repository: Any, tmp_path: Path) -> None:
    run = transfer_run_function(functions.build, functions.train, repository=repository)
    left: list[str] = []

    def leave(model_id: str) -> None:
        left.append(model_id)
        run.release(model_id)

    evaluator = DaskEvaluator(run, client=client)
    assert evaluator.num_workers == 2
    search = AgedEvolution(problem(), random_state=1, log_dir=str(tmp_path), on_leave=leave, **POPULATION)
    frame = search.search(evaluator, max_evals=7, max_evals_strict=True)
    assert len(frame) == 7
    assert (frame["job_status"] == "DONE").all()
    # DeepHyper sees the loss negated, people see it as it is.
    assert (frame["objective"] == -frame["m:loss"]).all()
    wanted = list(frame["m:model_id"][-3:])
    told = [(configuration["first"], configuration["second"]) for configuration, _ in search._population]
    assert told == list(zip(frame["p:first"][-3:], frame["p:second"][-3:], strict=True))
    assert search.living_models == wanted
    assert sorted(left) == sorted(set(frame["m:model_id"]) - set(wanted))
    assert {model.model_id for model in repository.models()} == set(wanted)
    # Whoever came later inherited, at least what has no weights.
    assert (frame["m:frozen_share"] > 0).any()
    rows = frame.set_index("m:model_id")
    assert rows["m:parent"][wanted].notna().any()
    for model_id in wanted:
        record, row = repository.record(model_id), rows.loc[model_id]
        # Also of a parent that has left.
        assert record.parent == (row["m:parent"] if isinstance(row["m:parent"], str) else None)
        if isinstance(row["m:ancestor"], str):
            assert record.ancestor == row["m:ancestor"]


def test_a_job_whose_model_was_stored_is_not_trained_again(client: Any, repository: Any) -> None:
    run = transfer_run_function(functions.build, functions.train, repository=repository)
    storage = DaskStorage(client).connect()
    job = storage.create_new_job(storage.create_new_search())
    parameters = {"first": 4, "activation": "relu", "second": 3}
    task = Evaluation(run, RunningJob(job, parameters, storage), {}, True)
    outcomes = [
        client.submit(evaluate, task, pure=False, resources={"evaluation": 1}).result(timeout=200) for _ in range(2)
    ]
    # Its name is taken for other parameters.
    taken = Evaluation(run, RunningJob(job, {**parameters, "second": 7}, storage), {}, True)
    refused = client.submit(evaluate, taken, pure=False, resources={"evaluation": 1}).result(timeout=200)
    assert refused["objective"] == "F_ModelExists"
    assert outcomes[0] == outcomes[1]
    assert outcomes[0]["metadata"]["ancestor"] is None
    assert [model.model_id for model in repository.models()] == [job]
    # The next one shares the first layer, and inherits it.
    other = storage.create_new_job(job.partition(".")[0])
    task = Evaluation(run, RunningJob(other, {**parameters, "second": 5}, storage), {}, True)
    about = client.submit(evaluate, task, pure=False, resources={"evaluation": 1}).result(timeout=200)["metadata"]
    assert (about["ancestor"], about["frozen_share"]) == (job, 0.5)


def test_metrics_that_are_no_quality_leave_no_model(client: Any, repository: Any) -> None:
    run = transfer_run_function(functions.build, functions.worthless, repository=repository)
    configurations = [{"first": first, "activation": "relu", "second": 3} for first in (4, 8)]
    jobs = evaluated(DaskEvaluator(run, client), configurations)
    assert [job.objective for job in jobs] == ["F_not_finite", "F_InvalidInput"]
    assert "training gave error: return one of that name" in jobs[1].metadata["error"]
    assert not list(repository.models())
    alone = transfer_run_function(functions.build, functions.alone, repository=repository)
    (job,) = evaluated(DaskEvaluator(alone, client), configurations[:1])
    assert (job.objective, job.metadata["loss"]) == (-0.25, 0.25)


def test_a_problem_of_daskevos_needs_no_train(client: Any, tmp_path: Path) -> None:
    digits = Digits(depth=1, widths=(4,), epochs=2)
    own = daskevo.open(None, f"s-{uuid.uuid4().hex[:8]}", client=client, objective=digits.objective, shards=8)
    run = transfer_run_function(digits, repository=own)
    search = RandomSearch(to_hp_problem(digits.space()), random_state=0, log_dir=str(tmp_path))
    frame = search.search(DaskEvaluator(run, client, num_workers=1), max_evals=2, max_evals_strict=True)
    assert (frame["objective"] == frame["m:val_accuracy"]).all()
    assert (frame["m:accuracy"] > 0).all()
    for model in own.models():
        # Two epochs of 45 batches.
        assert own.record(model.model_id).step == 90
        own.retire(model.model_id)


def test_run_functions_that_cannot_be(repository: Any) -> None:
    def make(problem: Any = functions.build, train: Any = functions.train, **options: Any) -> Any:
        return transfer_run_function(problem, train, repository=repository, **options)

    assert make().objective == make(objective="min loss").objective == repository.objective
    with pytest.raises(InvalidInput, match="'max loss' was given, and the repository's is 'min loss'"):
        make(objective="max loss")
    for problem in (functions.build, object()):
        with pytest.raises(InvalidInput, match="give train="):
            make(problem, None)
    with pytest.raises(InvalidInput, match="object makes no models"):
        make(object())
    unsaid = types.SimpleNamespace(objective=None)
    with pytest.raises(InvalidInput, match="what counts as better"):
        transfer_run_function(functions.build, functions.train, repository=unsaid)
    assert str(transfer_run_function(functions.build, functions.train, repository=unsaid, objective="max a").objective)


def test_training_is_stopped_by_the_stopper(client: Any, repository: Any, tmp_path: Path) -> None:
    run = transfer_run_function(functions.build, functions.train, repository=repository)
    stopper = ConstantStopper(max_steps=2, stop_step=1)
    search = RandomSearch(problem(), random_state=0, log_dir=str(tmp_path), stopper=stopper)
    frame = search.search(DaskEvaluator(run, client=client), max_evals=2, max_evals_strict=True)
    assert list(frame["m:epochs"]) == [1, 1]


def test_a_failed_evaluation_leaves_no_model(client: Any, repository: Any, tmp_path: Path) -> None:
    run = transfer_run_function(functions.build, functions.train, repository=repository, objective="min loss")
    broken = problem()
    broken.add([1e-3, 1e30], "scale")
    search = RegularizedEvolution(broken, random_state=3, log_dir=str(tmp_path), on_leave=run.release, **POPULATION)
    frame = search.search(DaskEvaluator(_Exploding(run), client=client), max_evals=6, max_evals_strict=True)
    failed = frame["objective"].map(lambda objective: isinstance(objective, str))
    assert 0 < failed.sum() < 6
    assert set(frame["objective"][failed]) == {"F_OverflowError"}
    assert search.living_models == list(frame["m:model_id"][~failed][-3:])
    assert {model.model_id for model in repository.models()} == set(search.living_models)


class _Exploding:
    """A run function that fails for large scales, after its model was stored: the worst that can be."""

    def __init__(self, run: Any) -> None:
        self.run = run

    def __call__(self, job: Any) -> Any:
        outcome = self.run(job)
        if job["scale"] > 1:
            self.run.release(outcome["metadata"]["model_id"])
            raise OverflowError
        return outcome


def test_without_strict_there_may_be_as_many_more_as_there_are_workers_less_one(client: Any, tmp_path: Path) -> None:
    small = HpProblem()
    small.add((0.0, 1.0), "x")
    search = RandomSearch(small, random_state=0, log_dir=str(tmp_path))
    frame = search.search(DaskEvaluator(functions.nothing, client=client), max_evals=6)
    assert len(frame) in (6, 7)
    # A second search of the same object goes on.
    assert len(search.search(DaskEvaluator(functions.nothing, client=client), max_evals=2)) - len(frame) in (2, 3)


def test_failures_end_neither_the_search_nor_a_worker(client: Any) -> None:
    whats = ["raise", "exit", "nan", "inf", "none", "text", "array", "fine"]
    jobs = evaluated(DaskEvaluator(functions.misbehave, client=client), [{"what": what} for what in whats])
    assert [job.objective for job in jobs] == [
        *("F_ArithmeticError", "F_SystemExit", "F_not_finite", "F_not_finite", "F_objective", "F_never again"),
        *("F_objective", 0.5),
    ]
    assert jobs[0].metadata["error"] == "no such number"
    assert [job.metadata["kept"] for job in jobs[-2:]] == [1, 2]
    assert {job.status for job in jobs} == {JobStatus.DONE}


def test_stoppers_work_on_trainers(client: Any) -> None:
    constant = DaskEvaluator(functions.climb, client=client)
    constant._stopper = ConstantStopper(max_steps=4, stop_step=2)
    assert [job.metadata["steps"] for job in evaluated(constant, [{"x": 1.0}, {"x": 2.0}])] == [2, 2]
    # The median is that of the other jobs, which ran in other tasks.
    median = DaskEvaluator(functions.climb, client=client, num_workers=1)
    median._stopper = MedianStopper(max_steps=4, min_competing=1)
    jobs = evaluated(median, [{"x": 3.0}, {"x": 2.0}, {"x": 4.0}])
    assert [job.metadata["steps"] for job in jobs] == [4, 1, 4]


class Limited(DaskEvaluator):
    """The search's time is over once all workers have begun an evaluation, however long that takes."""

    @property
    def time_left(self) -> float:
        begun = len(list(Path(self.run_function_kwargs["marks"]).iterdir()))
        return 0.0 if begun >= self.num_workers else 100.0


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("daskevo_plugins.deephyper.evaluator.LOOK_S", 0.2)
    (tmp_path / "marks").mkdir()
    return str(tmp_path / "marks")


def test_run_functions_see_that_the_time_is_over(client: Any, tmp_path: Path, marks: str) -> None:
    small = HpProblem()
    small.add((0.0, 1.0), "x")
    evaluator = Limited(functions.until_told, client, run_function_kwargs={"marks": marks})
    frame = RandomSearch(small, log_dir=str(tmp_path)).search(evaluator, timeout=100)
    assert list(frame["m:seen"]) == ["CANCELLING"] * len(frame)
    assert set(frame["job_status"]) == {"CANCELLED"}


def test_one_that_does_not_look_is_given_up_after_its_grace(client: Any, tmp_path: Path, marks: str) -> None:
    small = HpProblem()
    small.add([3.0], "x")
    options = {"num_workers": 1, "grace_s": 0.2, "run_function_kwargs": {"marks": marks}}
    evaluator = Limited(functions.until_freed, client, **options)
    frame = RandomSearch(small, log_dir=str(tmp_path)).search(evaluator, timeout=100)
    (Path(marks) / "free").touch()
    assert list(frame["objective"]) == ["F_TIMEOUT"]


def test_without_trainers_nothing_waits_for_ever(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskevo_plugins.deephyper.evaluator.LOOK_S", 0.2)
    with pytest.raises(NoTrainer, match="no worker offers"):
        DaskEvaluator(functions.nothing, client, resources={"unobtainium": 1})
    evaluator = DaskEvaluator(functions.nothing, client, num_workers=1, resources={"unobtainium": 1}, patience_s=0.1)
    evaluator._job_class = HPOJob
    evaluator.submit([{"x": 1}])
    with pytest.raises(NoTrainer, match="evaluations wait"):
        evaluator.gather("ALL")
    evaluator._tasks_running.clear()
    evaluator.close()


def test_a_closed_evaluator_takes_its_tasks_back(client: Any) -> None:
    evaluator = DaskEvaluator(functions.hang, client, num_workers=1)
    evaluator._job_class = HPOJob
    evaluator.submit([{"x": 0.1}, {"x": 1.0}])
    evaluator.gather("BATCH", 1)
    (closed,) = evaluator.close()
    assert (closed.objective, closed.status) == ("F_CANCELLED", JobStatus.CANCELLED)
    assert evaluator._storage.load_job(closed.id)["out"] == "F_CANCELLED"


def test_two_searches_share_a_storage(client: Any) -> None:
    one = DaskStorage(client, name=f"shared-{uuid.uuid4().hex}").connect()
    other = DaskStorage(client, name=one.name).connect()
    search = one.create_new_search()
    job = other.create_new_job(search)
    one.store_job_in(job, args=({"x": (1, 2)},))
    one.store_job_metadata(job, "note", {"of": [1.5, None]})
    one.store_search_value(search, "key", {3: "three"})
    assert one.load_all_job_ids(search) == other.load_all_job_ids(search) == [job]
    assert other.load_job(job)["in"] == {"args": ({"x": (1, 2)},), "kwargs": None}
    assert other.load_metadata_from_all_jobs(search, "note") == [{"of": [1.5, None]}]
    assert other.load_search_value(search, "key") == {3: "three"}
    one.store_job_out(job, 0.5)
    one.store_job_status(job, 2)
    assert other.load_out_from_all_jobs(search) == [0.5]
    assert other.load_jobs([job])[job]["status"] == other.load_job_status(job) == 2
    assert other.load_search(search)["0"]["out"] == 0.5
    assert search in other.load_all_search_ids()
    with pytest.raises(KeyError):
        one.load_job(f"{search}.7")
    strange = DaskStorage(client)
    with pytest.raises(ClusterError, match="no storage"):
        strange.load_all_search_ids()


def test_what_cannot_work_is_refused(client: Any) -> None:
    from deephyper.evaluator.storage import MemoryStorage

    with pytest.raises(InvalidInput, match="MemoryStorage is empty on workers"):
        DaskEvaluator(functions.nothing, client, storage=MemoryStorage())
    with pytest.raises(InvalidInput, match="num_workers=0"):
        DaskEvaluator(functions.nothing, client, num_workers=0)


@pytest.mark.long
def test_an_evaluation_outlives_its_trainer(client: Any, tmp_path: Path) -> None:
    evaluator = DaskEvaluator(functions.die, client, run_function_kwargs={"marks": str(tmp_path), "times": 1})
    assert [job.objective for job in evaluated(evaluator, [{"x": 1}])] == [2.0]


@pytest.mark.long
def test_one_that_kills_its_trainers_fails(client: Any, tmp_path: Path) -> None:
    def allow(failures: int, dask_scheduler: Any = None) -> int:
        before, dask_scheduler.allowed_failures = dask_scheduler.allowed_failures, failures
        return int(before)

    before = client.run_on_scheduler(allow, 0)
    try:
        evaluator = DaskEvaluator(functions.die, client, run_function_kwargs={"marks": str(tmp_path), "times": 1})
        assert [job.objective for job in evaluated(evaluator, [{"x": 1}])] == ["F_trainer_lost"]
    finally:
        client.run_on_scheduler(allow, before)
