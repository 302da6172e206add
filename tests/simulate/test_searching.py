"""Simulated searches: by hand where that can be, the same again with a seed, real decisions, plain refusals."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from daskevo.errors import InvalidInput
from daskevo.search import AgedEvolution, Random, SuccessiveHalving
from daskevo_workflows.simulate import Phase, SimulatedOutcome, layered, layered_space, queries, search
from daskevo_workflows.simulate.cluster import heartbeats_per_s
from daskevo_workflows.simulate.costs import MeasuredCosts
from tests.simulate.costs import costs

SPACE = layered_space(6)
SMALL = {"trainers": 4, "evaluations": 40, "providers": 2}


def simulated(made: MeasuredCosts | None = None, strategy: object = None, **options: object) -> SimulatedOutcome:
    strategy = AgedEvolution(population=10, sample=3) if strategy is None else strategy
    return search(strategy, SPACE, layered(SPACE), costs=made or costs(), **{**SMALL, **options})  # type: ignore[arg-type]


def test_free_messages_leave_the_evaluations_seconds() -> None:
    outcome = simulated(MeasuredCosts.from_json(costs(bytes_per_s=1e18).to_json()))
    assert outcome.runtime_s == pytest.approx(10.0)
    assert outcome.busy_share == pytest.approx(1.0)
    assert outcome.waves == pytest.approx(1.0)
    assert len(outcome.finished) == 40


def test_twice_the_trainers_take_half_as_long() -> None:
    one, two = (simulated(transfer=False, trainers=count, evaluations=64) for count in (4, 8))
    assert one.runtime_s / two.runtime_s == pytest.approx(2.0, rel=0.01)


def test_a_search_process_that_is_busy_is_what_trainers_wait_for() -> None:
    outcome = simulated(costs(graph_s=0.5), trainers=16, evaluations=100)
    assert outcome.runtime_s > 50
    assert outcome.loads[0].name == "search's process"
    assert outcome.loads[0].share > 0.95
    assert outcome.loads[0].most_per_s == pytest.approx(2.0, rel=0.1)
    assert outcome.busy_share < 0.3


def test_the_same_seed_is_the_same_search() -> None:
    varied = costs(training=Phase(1.0, 0.0, 0.5, 0.3), message_s=1e-3, query_s=1e-3, latency_s=1e-4)
    one, two, other = (simulated(varied, seed=seed) for seed in (3, 3, 4))
    assert one.to_json() == two.to_json()
    assert [report.to_json() for report in one.reports] == [report.to_json() for report in two.reports]
    assert one.runtime_s != other.runtime_s


def test_frozen_layers_save_time_and_bytes() -> None:
    frozen = costs(training=Phase(1.0, 0.0, 0.8))
    alone = simulated(frozen, transfer=False, evaluations=80)
    inherited = simulated(frozen, evaluations=80)
    assert alone.mean_frozen_share == 0.0
    assert inherited.mean_frozen_share > 0.2
    expected = 1 - 0.8 * inherited.mean_frozen_share
    assert inherited.evaluation_s[0] / alone.evaluation_s[0] == pytest.approx(expected, rel=0.02)
    assert alone.storage[-1].stored_bytes == alone.storage[-1].full_copy_bytes
    assert inherited.storage[-1].stored_bytes < inherited.storage[-1].full_copy_bytes


def test_what_leaves_the_population_is_retired_by_the_real_rules() -> None:
    outcome = simulated(evaluations=80)
    kept = simulated(evaluations=80, retire=False)
    # The population of ten, five best, and those whose release waits for evaluations under way.
    assert outcome.storage[-1].models <= 15 + 2 * SMALL["trainers"]
    assert kept.storage[-1].models == 80
    assert kept.storage[-1].stored_bytes == sum(report.own_bytes for report in kept.finished)
    assert outcome.messages["Release"] > 40
    assert outcome.messages["FinishRetirement"] > 40
    assert "Release" not in kept.messages


def test_no_byte_is_left_of_what_nobody_uses() -> None:
    outcome = simulated(costs(latency_s=0.01), evaluations=200, transfer=False)
    sizes = {report.model_id: report.own_bytes for report in outcome.finished}
    last = outcome.storage[-1]
    assert last.stored_bytes == last.full_copy_bytes <= max(sizes.values()) * last.models


def test_without_a_freeze_everything_is_stored() -> None:
    outcome = simulated(freeze="none")
    assert all(report.own_bytes == report.full_bytes for report in outcome.finished)
    assert outcome.mean_frozen_share == 0.0
    assert any(report.ancestor for report in outcome.finished)


@pytest.mark.parametrize("freeze", ["prefix", "steps:600", 0.5])
def test_other_policies_freeze_less_than_the_whole_prefix(freeze: object) -> None:
    whole, some = simulated(freeze="prefix"), simulated(freeze=freeze)
    assert some.mean_frozen_share <= whole.mean_frozen_share


def test_whole_files_and_one_server_take_longer() -> None:
    slow = costs(scan_s=0.01, copy_bytes_per_s=1e5, load_bytes_per_s=1e5)
    files, ours = simulated(slow, keep="files"), simulated(slow)
    assert files.runtime_s > ours.runtime_s
    assert {load.name for load in files.loads} == {"central server"}
    assert files.storage[-1].stored_bytes == files.storage[-1].full_copy_bytes
    assert files.storage[-1].models <= 15 + 2 * SMALL["trainers"]


def test_processes_that_share_cores_wait_for_each_other() -> None:
    work = costs(training=Phase(0.0), put_s=1.0)
    assert simulated(work).runtime_s == pytest.approx(10.0, rel=0.01)
    assert simulated(work, shared_cores=1).runtime_s == pytest.approx(40.0, rel=0.1)


def test_any_strategy_of_single_evaluations_runs() -> None:
    assert len(simulated(strategy=Random()).finished) == 40


def test_a_space_that_is_exhausted_ends_the_search() -> None:
    small = layered_space(1, 3)
    outcome = search(Random(), small, layered(small), costs=costs(), trainers=2, evaluations=40)
    assert len(outcome.finished) == 3


def test_strategies_that_continue_trainings_are_refused() -> None:
    halving = SuccessiveHalving(1, 9)
    with pytest.raises(InvalidInput, match=r"daskevo\.tuning\.simulate"):
        search(halving, SPACE, layered(SPACE), costs=costs(), trainers=8, evaluations=40)


@pytest.mark.parametrize("wrong", [{"trainers": 0}, {"evaluations": 0}, {"providers": 0}, {"shards": 1}, {"seed": -1}])
def test_impossible_clusters_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidInput):
        simulated(**wrong)


@pytest.mark.parametrize(
    ("made", "per_s"),
    [
        (lambda: queries(1, costs(query_s=1e-3), count=100), 1000.0),
        (lambda: queries(64, costs(query_s=1e-3), count=640), 1000.0),
        (lambda: queries(64, costs(query_s=1e-3, question_s=1e-3), count=640, batch=10), 1000.0),
        (lambda: queries(64, costs(query_s=1e-3), count=640, batch=10), 10_000.0),
        (lambda: queries(4, costs(scan_s=1e-6), count=100, central=1000), 1000.0),
    ],
)
def test_every_provider_answers_every_query(made: Callable[[], object], per_s: float) -> None:
    assert made().per_s == pytest.approx(per_s, rel=0.01)  # type: ignore[attr-defined]


def test_who_asks_many_providers_takes_longer_to_ask() -> None:
    made = costs(ask_provider_s=1e-3, query_s=1e-6)
    assert queries(4, made, count=400, providers=1).per_s > 7 * queries(4, made, count=400, providers=8).per_s


def test_queries_that_cost_nothing_are_refused() -> None:
    with pytest.raises(InvalidInput, match="measure"):
        queries(4, costs())


def test_heartbeats_come_less_often_the_more_there_are() -> None:
    assert [heartbeats_per_s(workers) for workers in (4, 20, 100, 600)] == [8.0, 20.0, 50.0, pytest.approx(85.7, 0.01)]
