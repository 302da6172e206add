"""The trainers of a Dask cluster as a controller's crew: each work is one future, pinned to its trainer.

What happens on the cluster is posted to the controller's queue, so that everything here lives in its thread.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from daskevo.errors import ClusterError
from daskevo.planning import LossKind
from daskevo.tuning import Halt, Run, Save
from daskevo_workflows.dashboard.study import Showing
from daskevo_workflows.execution.scaling_demand import Demand
from daskevo_workflows.execution.scheduler_lost import NO_ANSWER
from daskevo_workflows.execution.trainer_tasks import SETUP_S, TrainerTask, TrainerTasks
from daskevo_workflows.problems.delivery import Delivery
from daskevo_workflows.studies.assignment import Setting, StageAssignment
from daskevo_workflows.studies.command_mailbox import answer_room, copy_now, deliver
from daskevo_workflows.studies.participants import CrewEvents
from daskevo_workflows.studies.task import train_stages

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class WorkTask(TrainerTask):
    """The task of one work.

    Parameters
    ----------
    told:
        How many of its messages were taken in.
    held:
        Orders until it begins: before that there is nobody to take them.
    early:
        Messages by number that came before others that were said before them.
    """

    run: Run
    told: int = 0
    held: list[Save | Halt] = field(default_factory=list)
    early: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"work {self.run.work}"


class DaskCrew:
    """Trainers of a Dask cluster.

    Parameters
    ----------
    client:
        A synchronous Dask client.
    step_limit_s:
        Longest that a work may take for one step, one scoring or one snapshot; None: no limit.
    recycle_after:
        See :class:`daskevo_workflows.execution.trainer_upkeep.Upkeep`.
    """

    def __init__(self, client: Any, step_limit_s: float | None = 1800.0, recycle_after: int | None = 50) -> None:
        self.client = client
        self.step_limit_s = step_limit_s
        self._showing = Showing(client)
        self._settings: dict[str, tuple[Setting, Delivery]] = {}
        self._name = uuid.uuid4().hex[:8]
        self._known: dict[str, str] = {}
        self._recycle_after = recycle_after
        # A worker's orders arrive in the order in which they were given.
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def begin(self, controller: CrewEvents) -> None:
        self.controller = controller
        self.demand = Demand(self.client, f"study-{self._name}")
        self.tasks: TrainerTasks[WorkTask] = TrainerTasks(
            self.client, self, self._recycle_after, self.demand.is_met_later
        )
        self.tasks.trainers.refresh()
        self._compare()

    def know(self, origin: str, setting: Setting) -> None:
        delivery = Delivery(self.client, setting.problem)
        self._settings[origin] = replace(setting, problem=delivery.reference), delivery

    def start(self, run: Run) -> None:
        setting, delivery = self._settings[run.trajectory.origin]
        task = WorkTask(key=self._key(run.work), trainer=self.tasks.trainers.present[run.trainer], run=run)
        assignment = StageAssignment(key=task.key, topic=self.tasks.topic, run=run, setting=setting)
        self.tasks.submit(task, train_stages, assignment, delivery.parcel())

    def _key(self, work: str) -> str:
        return f"stages-{self._name}-{work}"

    def _task(self, work: str) -> WorkTask | None:
        return self.tasks.running.get(self._key(work))

    def order(self, told: Save | Halt) -> None:
        task = self._task(told.work)
        if task is None:
            return
        if task.begun is None:
            task.held.append(told)
            return
        asyncio.run_coroutine_threadsafe(self._deliver(task, told), self.client.loop.asyncio_loop)

    async def _deliver(self, task: WorkTask, told: Save | Halt) -> None:
        address = task.trainer.address
        order = ("save", told.step, told.evaluate) if isinstance(told, Save) else ("halt", told.after, False)
        try:
            async with self._locks[address]:
                replies = await self.client.run(deliver, task.key, *order, workers=[address])
        except (*NO_ANSWER, ClusterError) as error:
            # A trainer that is gone: whoever looks at trainers sees to it.
            logger.info("an order did not reach trainer %s: %s", task.place, error)
            return
        if isinstance(told, Save):
            self.controller.post(lambda: self.controller.replied(told.work, told.step, replies[address]))

    def copy(self, work: str) -> bool:
        task = self._task(work)
        if task is None or task.begun is None:
            return False
        asyncio.run_coroutine_threadsafe(self._tell(task, copy_now, task.key), self.client.loop.asyncio_loop)
        return True

    def room(self, work: str, made: bool) -> None:
        if (task := self._task(work)) is not None:
            told = self._tell(task, answer_room, task.key, made)
            asyncio.run_coroutine_threadsafe(told, self.client.loop.asyncio_loop)

    async def _tell(self, task: WorkTask, function: Callable[..., object], *arguments: object) -> None:
        address = task.trainer.address
        try:
            async with self._locks[address]:
                await self.client.run(function, *arguments, workers=[address])
        except (*NO_ANSWER, ClusterError) as error:
            logger.info("a word did not reach trainer %s: %s", task.place, error)

    def close(self, patience_s: float) -> None:
        for _, delivery in self._settings.values():
            delivery.close()
        self.demand.close()
        if self.tasks.close(self.controller.take_in_last, patience_s):
            self._showing.close(self.controller)

    def watch(self) -> None:
        self._showing.look(self.controller)
        if self.tasks.watch():
            self.demand.say(len(self.tasks.running) + len(self.controller.plan.wanted))
        # Each turn, before anything is decided: a work for a trainer that is being restarted would only be lost.
        self._compare()

    def _compare(self) -> None:
        """Tell the controller who came and who went; one with a new address is another one."""
        trainers = self.tasks.trainers
        busy = {task.place for task in self.tasks.running.values()}
        stuck = {str(trainer.name) for trainer in trainers.stuck.values()}
        usable = {
            name: trainer
            for name, trainer in trainers.present.items()
            if name not in trainers.restarting and name not in stuck and (trainer.running or name in busy)
        }
        for name, address in list(self._known.items()):
            if name not in usable or usable[name].address != address:
                del self._known[name]
                for task in [task for task in self.tasks.running.values() if task.place == name]:
                    self.tasks.lose(task, *self.tasks.how_gone(task))
                self.controller.went(name)
        for name, trainer in usable.items():
            if name not in self._known:
                self._known[name] = trainer.address
                self.controller.came(name, trainer.memory_bytes)

    # As the owner of tasks on trainers

    def post(self, function: Callable[[], None]) -> None:
        self.controller.post(function)

    def event(self, kind: str, message: str, number: int | None = None, **facts: Any) -> None:
        self.controller.tell_all(kind, message, **facts)

    def said(self, task: WorkTask, message: Mapping[str, Any], *, cancelled: bool) -> None:
        work = task.run.work
        if message["what"] == "begun":
            held, task.held = task.held, []
            for told in held:
                self.order(told)
        elif cancelled:
            pass  # what it does is for nobody
        elif message["what"] == "progress":
            self.controller.progress(work, message["step"])
        elif message["what"] == "full":
            self.controller.full(work, message["step"], message["nbytes"])
        elif "number" in message:
            # One thread trains and another stores: what they say may overtake.
            task.early[message["number"]] = message
            while (following := task.early.pop(task.told, None)) is not None:
                self._take(task, following)

    def _take(self, task: WorkTask, message: Mapping[str, Any]) -> None:
        """Take in what a work says of itself, once, be it at once or at its end."""
        task.told += 1
        work, controller = task.run.work, self.controller
        match message:
            case {"what": "trained", "start": start, "stop": stop, "seconds": seconds}:
                controller.trained(work, start, stop, seconds)
            case {"what": "measured", "step": step, "metrics": metrics}:
                controller.measured(work, step, metrics)
            case {"what": "unsaved", "step": step, "kind": kind, "why": why}:
                controller.unsaved(work, step, kind, why)
            case {"what": "saved", "step": step, "name": name, "kind": kind}:
                controller.saved(work, step, name, kind)

    def freed(self, task: WorkTask) -> None:
        """Its trainer gets the next work once it has been told how this one ended."""

    def returned(self, task: WorkTask, result: Mapping[str, Any]) -> None:
        work = task.run.work
        for message in result["told"][task.told :]:
            self._take(task, message)
        self.controller.progress(work, result["reached"])
        match result["end"]:
            case "ended":
                self.controller.ended(work)
            case "gone":
                self.controller.vanished(work, result["why"])
            case failure:
                self.controller.broke(work, failure, result["why"])

    def raised(self, task: WorkTask, error: BaseException) -> None:
        self.controller.broke(task.run.work, "error", f"{type(error).__name__}: {error}")

    def lost(self, task: WorkTask, kind: LossKind, why: str) -> None:
        self.controller.broke(task.run.work, kind, why)

    def check(self, task: WorkTask, now: float) -> None:
        limit_s = self.step_limit_s
        if limit_s is None or now - task.silent_since <= limit_s + (0.0 if task.told else SETUP_S):
            return
        why = f"a step, a scoring or a snapshot took longer than its limit of {limit_s:g} s"
        self.controller.broke(task.run.work, "error", f"{why}; {self.tasks.end(task)}")
