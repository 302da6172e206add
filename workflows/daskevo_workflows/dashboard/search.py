"""Show a search on the dashboard: snapshots of its state, taken in the executor's thread and sent separately."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from daskevo.runs import RunRecord, RunState, SessionRow
from daskevo.search import Strategy
from daskevo_plugins.dashboard.message_checks import finite
from daskevo_plugins.dashboard.news import Standing
from daskevo_plugins.dashboard.search_news import MOST_TRAINERS, Best, Doing, SearchNews, ShownUnit, TrainerRow
from daskevo_plugins.formatting import plain
from daskevo_workflows.dashboard.dashboard_client import Sender
from daskevo_workflows.dashboard.search_totals import SearchAccounts
from daskevo_workflows.execution.label_sync import Holdings
from daskevo_workflows.execution.progress import Progress
from daskevo_workflows.execution.run_deadline import Closing
from daskevo_workflows.execution.running_task import RunningTask
from daskevo_workflows.execution.running_tasks import RunningTasks
from daskevo_workflows.execution.submission import Submission
from daskevo_workflows.reports.run_reader import RunningTime

logger = logging.getLogger(__name__)

ENDED = ("finished", "exhausted")
"""Reasons for the end of a search that mean it has done all that was asked."""


class ShownSearch(Protocol):
    """What a snapshot reads of a search: of its executor, which takes the snapshots."""

    record: RunRecord
    run_state: RunState
    strategy: Strategy
    tasks: RunningTasks
    holdings: Holdings
    submission: Submission
    closing: Closing

    def time_left_s(self) -> float | None: ...


@dataclass(frozen=True, slots=True)
class TakenNews:
    """News made at the time of the snapshot."""

    made: SearchNews

    def news(self, client: str) -> SearchNews:
        """Return them."""
        return self.made


class SearchShowing:
    """Shows one search on the scheduler's dashboard.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    executor:
        The search's executor; read in its own thread.
    """

    def __init__(self, client: Any, executor: ShownSearch) -> None:
        self._client = client
        self._sender = Sender(client, "search")
        self._executor = executor
        sessions = executor.record.sessions()
        # The current session has not ended yet, whatever its last record says.
        *before, this = sessions
        self._clock = RunningTime([*before, SessionRow(this.opened, float("inf"), this.process, None)])
        self._accounts = SearchAccounts(executor.run_state, self._clock.at)
        self._facts = tuple(facts_of(executor.record.info.identity))
        self._since: dict[str, tuple[object, float]] = {}

    def look(self) -> None:
        """Take a snapshot of the state and send it, if it is time."""
        if self._sender.is_due():
            self._show("running", "")

    def close(self, word: str, said: str) -> None:
        """Report that the search has ended, and why.

        Parameters
        ----------
        word:
            The executor's word for the reason.
        """
        if self._sender.has_last_word:
            self._show("ended" if word in ENDED else "stopped", said)
            self._sender.wait()

    def _show(self, standing: Standing, said: str) -> None:
        began_s = time.thread_time()
        try:
            news = self._news(standing, said)
            self._sender.send([TakenNews(news)], time.thread_time() - began_s)
        except Exception:
            # An exception raised here would end the search.
            logger.exception("the search can't be shown on the dashboard any more")
            self._sender.given_up = True

    def _news(self, standing: Standing, said: str) -> SearchNews:
        executor, run_state, accounts = self._executor, self._executor.run_state, self._accounts
        accounts.update()
        info, tasks = executor.record.info, executor.tasks.all
        members = frozenset(executor.strategy.population())
        progress = Progress.of(run_state, executor.holdings.storage, executor.tasks.trainers.slots)
        best = next(iter(run_state.best(1)), None)
        storage = executor.holdings.storage
        under_way = 0 if standing != "running" else len(tasks)
        return SearchNews(
            search=info.id,
            client=self._client.id,
            name=plain(info.name, 100),
            metric=plain(run_state.objective.metric, 40),
            direction=run_state.objective.direction,
            facts=self._facts,
            standing=standing,
            said=plain(said, 300),
            evaluations=run_state.evaluations,
            finished=run_state.counts["finished"],
            failed=run_state.failures,
            rejected=run_state.rejected,
            stopped=run_state.stopped,
            duplicates=run_state.counts["duplicate"],
            under_way=under_way,
            slots=max(0, executor.tasks.trainers.slots),
            running_s=max(0.0, self._clock.at(time.time())),
            left_s=progress.left_s,
            deadline_s=self._deadline_s(),
            population=len(members) or None,
            # The scheduler refuses news with a number that is not finite.
            best=None if best is None or finite(best.quality) is None else _best(best),
            stored_bytes=storage.get("stored_bytes"),
            full_bytes=storage.get("full_copy_bytes"),
            models=storage.get("live_models"),
            points=accounts.points(members),
            best_line=accounts.best_line(),
            phases=accounts.phases(),
            units=tuple(unit_rows(executor.record.unit_counts(), under_way, executor.submission.planned, standing)),
            trainers=() if standing != "running" else tuple(self._trainers(tasks))[:MOST_TRAINERS],
        )

    def _deadline_s(self) -> float | None:
        """Return the seconds until the search must end, because of its deadline or time limit."""
        deadline, limit = self._executor.closing.deadline(), self._executor.time_left_s()
        ends = [] if deadline is None else [deadline.at - deadline.margin_s - time.time()]
        return min([*ends, *([] if limit is None else [limit])], default=None)

    def _trainers(self, tasks: list[RunningTask]) -> Iterator[TrainerRow]:
        trainers, accounts = self._executor.tasks.trainers, self._accounts
        names, now = accounts.phase_names(), time.monotonic()
        by_place: dict[str, list[RunningTask]] = {}
        for task in tasks:
            by_place.setdefault(task.place, []).append(task)
        stuck = {str(trainer.name) for trainer in trainers.stuck.values()}
        # By name, so that a row stays where it is from one snapshot to the next.
        for name in sorted({*trainers.present, *trainers.restarting}):
            there, here = trainers.present.get(name), by_place.get(name, [])
            # The first that holds: what keeps a trainer from its work is said before what it works on.
            doing: Doing = (
                "restarting"
                if name in trainers.restarting or there is None
                else "silent"
                if trainers.is_silent(name)
                else "stuck"
                if name in stuck
                else "evaluating"
                if here
                else "paused"
                if there.paused
                else "free"
            )
            what = "; ".join(map(said_of, here[:4])) if doing == "evaluating" else ""
            # With several tasks show the one begun last, whose time matches the text.
            since = max((moment_of(task) for task in here), default=now)
            since = since if doing == "evaluating" else self._since_of(name, doing, now)
            spent = accounts.trainers.get(name)
            yield TrainerRow(
                plain(name, 100),
                doing,
                plain(what, 300),
                max(0.0, now - since),
                0 if spent is None else spent.evaluations,
                tuple(0.0 if spent is None else spent.seconds.get(phase, 0.0) for phase in names),
            )

    def _since_of(self, name: str, doing: Doing, now: float) -> float:
        """Return the time since which a trainer has been in this state."""
        before = self._since.get(name)
        if before is None or before[0] != doing:
            before = self._since[name] = (doing, now)
        return before[1]


def _best(report: Any) -> Best:
    return Best(report.number, plain(report.model_id, 200), float(report.quality))


def said_of(task: RunningTask) -> str:
    """Return an evaluation's state from its trainer's last message."""
    number = f"evaluation {task.request.number}"
    if task.begun is None:
        return f"is sent {number}"
    if task.ready is None:
        return f"prepares for {number}: imports Keras, gets the data"
    if task.chosen is None:
        return f"{number}: builds, and looks for an ancestor"
    return f"{number}: trains, scores and puts"


def moment_of(task: RunningTask) -> float:
    """Return the time of its trainer's last message, by this process's monotonic clock."""
    said = (task.chosen, task.ready, task.begun)
    # The latest message first; before any there is only the time of submission.
    return next((moment for moment in said if moment is not None), task.submitted)


def unit_rows(
    counts: Mapping[str, Mapping[str, int]], evaluating: int, ready: int, standing: Standing
) -> Iterator[ShownUnit]:
    """Return the rows of units by kind.

    Parameters
    ----------
    counts:
        From the record, where units planned ahead count as submitted, and ends are stored only with the next report.
    evaluating, ready:
        Number of evaluations with a trainer, and of planned ones that wait for one.
    """
    for kind in sorted(counts):
        states = counts[kind]
        under_way = evaluating if kind == "evaluate" else states.get("submitted", 0)
        now = (ready if kind == "evaluate" else 0, under_way) if standing == "running" else (0, 0)
        yield ShownUnit(
            plain(kind, 40), *now, *(states.get(state, 0) for state in ("done", "failed", "lost", "cancelled"))
        )


def facts_of(identity: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the facts shown with a search, from the identity in its record.

    Examples
    --------
    >>> list(facts_of({"problem": {"name": "digits"}, "strategy": {"name": "random"}, "seed": 3}))
    [('problem', 'digits'), ('strategy', 'random'), ('seed', '3')]
    """
    for word in ("problem", "strategy"):
        part = identity.get(word)
        if isinstance(part, Mapping) and "name" in part:
            yield word, plain(part["name"], 100)
    policy = identity.get("policy")
    if isinstance(policy, Mapping):
        if policy.get("transfer") is False:
            yield "inherits", "nothing"
        for name, word in (("source", "inherits from"), ("freeze", "freezes"), ("control_share", "control arm")):
            if policy.get(name):
                yield word, plain(policy[name], 60)
    objectives = identity.get("objective")
    if isinstance(objectives, (list, tuple)):
        yield "objectives", plain(", ".join(map(str, objectives)), 200)
    if "seed" in identity:
        yield "seed", plain(identity["seed"], 20)
