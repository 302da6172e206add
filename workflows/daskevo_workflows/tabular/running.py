"""Run a strategy on a table: nothing is trained, and budget and duplicates count as in a search on a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from daskevo.errors import InvalidInput
from daskevo.search import Report, Request, Strategy
from daskevo.types import Objective, VertexId
from daskevo_workflows.execution.dry_run import run_dry
from daskevo_workflows.execution.request_fields import refuse_fields
from daskevo_workflows.tabular.table import Table

REFUSED = {
    "ancestor": "the table's trainings began with fresh weights: leave it out, or search with daskevo_workflows.nas"
}
"""Fields of a request that a table never has, and what to do instead."""


@dataclass(frozen=True)
class TableRun:
    """Result of a run on a table.

    Parameters
    ----------
    table, seed:
        Those of the run.
    requests, reports:
        In the order in which they were asked and told, duplicates included.
    stop:
        Why it ended: a word and a sentence.
    """

    table: Table
    seed: int
    requests: Sequence[Request]
    reports: Sequence[Report]
    stop: tuple[str, str]

    @cached_property
    def finished(self) -> list[Report]:
        """Reports of the evaluations that spent budget."""
        return [report for report in self.reports if report.status == "finished"]

    @cached_property
    def leaders(self) -> list[Report]:
        """After each finished evaluation, the one of the best quality until then; of equal ones the earlier."""
        leaders: list[Report] = []
        for report in self.finished:
            if not leaders or self._rank(report) > self._rank(leaders[-1]):
                leaders.append(report)
            else:
                leaders.append(leaders[-1])
        return leaders

    def _rank(self, report: Report) -> float:
        return self.table.objective.rank(report.metrics[self.table.objective.metric])

    @cached_property
    def regrets(self) -> list[float]:
        """After each finished evaluation, how far its leader is from the best that the run could have seen, 0 or more.

        That is the best of the trainings it sees, each with the seed that follows from the run's: whoever finds it has
        searched well, and may have been misled by a lucky training. # (n_finished,)
        """
        rank = self.table.objective.rank
        trained = {_trained(self.table, request, self.seed) for request in self.requests}
        best = max(rank(each.qualities[place][-1]) for each in self.table.architectures for place in trained)
        return [best - self._rank(leader) for leader in self.leaders]

    @cached_property
    def true_regrets(self) -> list[float]:
        """Like `regrets`, by means over the table's seeds for both leader and best: a lucky training is no gain here.

        It may grow, and doesn't reach 0 where luck decides between the best. # (n_finished,)
        """
        rank, candidates = self.table.objective.rank, {each.number: each.candidate for each in self.requests}
        best = rank(self.table.best.mean)
        return [best - rank(self.table[candidates[leader.number]].mean) for leader in self.leaders]


def run_on_table(
    strategy: Strategy,
    table: Table,
    evaluations: int,
    seed: int,
    *,
    objectives: Sequence[str] | None = None,
    at_once: int = 1,
) -> TableRun:
    """Run a strategy as a search does: same budget, same duplicates, without a cluster.

    Parameters
    ----------
    strategy:
        Is started here.
    evaluations:
        Finished evaluations wanted; candidates with an architecture that was evaluated before are duplicates, and
        spend nothing.
    seed:
        Of the run. Which of the table's trainings the run sees follows from it.
    objectives:
        Such as ``["max val_accuracy", "min parameters"]``; None = the table's own.
    at_once:
        Requests under way together, as with so many trainers; reports come in the order of requests, those of a
        higher priority first.

    Raises
    ------
    InvalidInput
        If the numbers aren't from 1, there are no such objectives, or the strategy asks for what a table doesn't have:
        training until a step within an epoch, hyper-parameters over time, other batches, more epochs, clones, the
        weights of an ancestor that it names.
    """
    goals = (table.objective,) if objectives is None else Objective.parse_all(objectives)
    known = {table.objective.metric, "parameters"}
    if unknown := [goal.metric for goal in goals if goal.metric not in known]:
        raise InvalidInput(f"the table has {' and '.join(sorted(known))}, not {', '.join(unknown)}")

    asked: dict[str, Request] = {}

    def evaluate(request: Request) -> Report:
        refuse_fields(strategy, request, REFUSED)
        if request.continues is not None:
            _check_continued(table, request, asked.get(request.continues))
        asked[request.model_id] = request
        return _report(table, goals[0], request, seed)

    def architecture(request: Request) -> list[VertexId]:
        return [VertexId(bytes.fromhex(table[request.candidate].id))]

    run = run_dry(
        strategy, table.space, goals, evaluations, seed, architecture=architecture, evaluate=evaluate, at_once=at_once
    )
    return TableRun(table, seed, run.requests, run.reports, run.stop)


def _report(table: Table, goal: Objective, request: Request, seed: int) -> Report:
    architecture = table[request.candidate]
    epochs = _epochs(table, request)
    trained = _trained(table, request, seed)
    metrics = {table.objective.metric: architecture.qualities[trained][epochs - 1]}
    metrics["parameters"] = float(architecture.parameters)
    return Report(
        request.number,
        request.model_id,
        "finished",
        step=epochs * table.steps_per_epoch,
        quality=metrics[goal.metric],
        metrics=metrics,
        seconds={"training": architecture.seconds[trained] * epochs / table.epochs},
        parameters=architecture.parameters,
    )


def _check_continued(table: Table, request: Request, before: Request | None) -> None:
    """Refuse to continue anything but the same training: its later epochs are what the table has."""
    if before is None:
        raise InvalidInput(
            f"request {request.number} continues {request.continues!r}, which this run has not trained: continue a "
            "model that it was told"
        )
    if before.candidate != request.candidate or before.repeat != request.repeat:
        raise InvalidInput(
            f"request {request.number} continues the model of another candidate or repeat: the table has none that was "
            "trained as two"
        )
    if (ends := _epochs(table, request)) <= (begins := _epochs(table, before)):
        raise InvalidInput(f"request {request.number} ends after {ends} epochs, and continues after {begins}")


def _trained(table: Table, request: Request, seed: int) -> int:
    """Return which of the table's trainings a request sees."""
    # Repeats of a request see other trainings of the architecture, as with another seed.
    return (seed + request.repeat) % len(table.seeds)


def _epochs(table: Table, request: Request) -> int:
    """Return after how many epochs the request's training ends."""
    epochs = request.training.get("epochs", table.epochs)
    steps = request.until_step or epochs * table.steps_per_epoch
    epochs, rest = divmod(steps, table.steps_per_epoch)
    # Where a training ends is said once.
    others = sorted(set(request.training) - (set() if request.until_step else {"epochs"}))
    if others or request.sequence is not None or rest or not 1 <= epochs <= table.epochs:
        raise InvalidInput(
            f"request {request.number} asks for {steps} steps{f', {others}' if others else ''}: the table has 1 to "
            f"{table.epochs} whole epochs of {table.steps_per_epoch} steps, with the recipe's own settings"
        )
    return epochs
