"""The trainers of a Dask cluster as a controller's crew: each work is one future, pinned to its trainer.

What happens on the cluster is posted to the controller's queue, so that everything here lives in its thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from daskevo.errors import ClusterError
from daskevo.tuning import Halt, Run, Save
from daskevo_plugins.formatting import say_count
from daskevo_workflows.dashboard.study import Showing
from daskevo_workflows.execution.letting_go import let_go
from daskevo_workflows.execution.scaling_demand import Demand
from daskevo_workflows.execution.scheduler_lost import FETCH_S, NO_ANSWER, told_if_scheduler_gone, why_cut_off
from daskevo_workflows.execution.trainer_upkeep import Upkeep
from daskevo_workflows.execution.trainers import SILENT_S, Trainer, Trainers
from daskevo_workflows.problems.delivery import Delivery
from daskevo_workflows.studies.assignment import Setting, StageAssignment
from daskevo_workflows.studies.command_mailbox import answer_room, copy_now, deliver
from daskevo_workflows.studies.controller import TICK_S, Controller
from daskevo_workflows.studies.task import train_stages

logger = logging.getLogger(__name__)

PAUSED_S = 2.0
"""What a paused trainer may take to say that it had begun before it was paused."""
SETUP_S = 180.0
"""What a trainer may take to begin, to import Keras and to prepare the data."""


@dataclass
class OnItsWay:
    """One work on the cluster.

    Parameters
    ----------
    heard:
        When it last said something, by this process' clock.
    told:
        How many of its messages were taken in.
    held:
        Orders until it begins: before that there is nobody to take them.
    early:
        Messages by number that came before others that were said before them.
    is_waiting:
        Whether it has been said that its trainer is busy for somebody else.
    """

    run: Run
    key: str
    trainer: Trainer
    future: Any
    heard: float
    told: int = 0
    begun: bool = False
    over: bool = False
    held: list[Save | Halt] = field(default_factory=list)
    early: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    is_waiting: bool = False


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
        # Of its own: a client has one handler per topic.
        self._topic = f"daskevo-studies-{self._name}"
        self._works: dict[str, OnItsWay] = {}
        self._cancelled: list[OnItsWay] = []
        self._known: dict[str, str] = {}
        self._watched = 0.0
        self._recycle_after = recycle_after
        # A worker's orders arrive in the order in which they were given.
        self._locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def begin(self, controller: Controller) -> None:
        self.controller = controller
        post = controller.post
        self.trainers = Trainers(self.client, lambda name, error: post(lambda: self._on_restarted(name, error)))
        self.demand = Demand(self.client, f"study-{self._name}")
        self.upkeep = Upkeep(self.trainers, self, self._recycle_after, self.demand.is_met_later)
        self.client.subscribe_topic(self._topic, lambda event: post(lambda: self._on_said(event[1])))
        self._look()

    def know(self, origin: str, setting: Setting) -> None:
        delivery = Delivery(self.client, setting.problem)
        self._settings[origin] = replace(setting, problem=delivery.reference), delivery

    def event(self, kind: str, message: str, number: int | None = None, **facts: Any) -> None:
        """Note what is done about trainers themselves."""
        self.controller.tell_all(kind, message, **facts)

    def start(self, run: Run) -> None:
        setting, delivery = self._settings[run.trajectory.origin]
        trainer = self.trainers.present[run.trainer]
        key = f"stages-{self._name}-{run.work}"
        with told_if_scheduler_gone():
            future = self.client.submit(
                train_stages,
                StageAssignment(key=key, topic=self._topic, run=run, setting=setting),
                delivery.parcel(),
                key=key,
                workers=[trainer.name],
                allow_other_workers=False,
                resources=self.trainers.claims,
                pure=False,
            )
        self._works[run.work] = OnItsWay(run, key, trainer, future, time.monotonic())
        self.trainers.take(run.trainer, key)
        post = self.controller.post
        future.add_done_callback(lambda done, work=run.work: post(lambda: self._on_done(work)))

    def order(self, told: Save | Halt) -> None:
        there = self._works.get(told.work)
        if there is None:
            return
        if not there.begun:
            there.held.append(told)
            return
        asyncio.run_coroutine_threadsafe(self._deliver(there, told), self.client.loop.asyncio_loop)

    async def _deliver(self, there: OnItsWay, told: Save | Halt) -> None:
        address = there.trainer.address
        order = ("save", told.step, told.evaluate) if isinstance(told, Save) else ("halt", told.after, False)
        try:
            async with self._locks[address]:
                replies = await self.client.run(deliver, there.key, *order, workers=[address])
        except (*NO_ANSWER, ClusterError) as error:
            # A trainer that is gone: whoever looks at trainers sees to it.
            logger.info("an order did not reach trainer %s: %s", there.run.trainer, error)
            return
        if isinstance(told, Save):
            self.controller.post(lambda: self.controller.replied(told.work, told.step, replies[address]))

    def copy(self, work: str) -> bool:
        there = self._works.get(work)
        if there is None or not there.begun:
            return False
        asyncio.run_coroutine_threadsafe(self._tell(there, copy_now, there.key), self.client.loop.asyncio_loop)
        return True

    def room(self, work: str, made: bool) -> None:
        if (there := self._works.get(work)) is not None:
            told = self._tell(there, answer_room, there.key, made)
            asyncio.run_coroutine_threadsafe(told, self.client.loop.asyncio_loop)

    async def _tell(self, there: OnItsWay, function: Callable[..., object], *arguments: object) -> None:
        address = there.trainer.address
        try:
            async with self._locks[address]:
                await self.client.run(function, *arguments, workers=[address])
        except (*NO_ANSWER, ClusterError) as error:
            logger.info("a word did not reach trainer %s: %s", there.run.trainer, error)

    def close(self, patience_s: float) -> None:
        self._cancelled, self._works = list(self._works.values()), {}
        for _, delivery in self._settings.values():
            delivery.close()
        try:
            self.demand.close()
            if self._cancelled:
                self.client.cancel([there.future for there in self._cancelled], force=True)
                let_go(self._still_running, self._end_at_last, self.trainers, self.controller.take_in_last, patience_s)
            self.client.unsubscribe_topic(self._topic)
        except (*NO_ANSWER, ClusterError) as error:
            logger.warning("works on their way could not be cancelled: %s", error)
        else:
            self._showing.close(self.controller)

    def _still_running(self) -> list[tuple[OnItsWay, Trainer]]:
        return [(there, there.trainer) for there in self._cancelled if there.begun and not there.over]

    def _end_at_last(self, there: OnItsWay) -> None:
        work = f"work {there.run.work}"
        end = self.upkeep.end(there.future, there.run.trainer, there.key, work)
        logger.warning("%s did not end when it was cancelled; %s", work, end)

    # What happens on the cluster

    def _on_said(self, message: Mapping[str, Any]) -> None:
        if message["what"] == "over" and self.trainers.unstick(message["key"]):
            self.event(
                "trainer back", f"{message['worker']} has ended a work that was given up, and takes others again"
            )
        known = (*self._works.values(), *self._cancelled)
        there = next((there for there in known if there.key == message["key"]), None)
        if there is None:
            return
        there.heard = time.monotonic()
        if message["what"] == "over":
            there.over = True
        elif message["what"] == "begun":
            there.begun = True
            held, there.held = there.held, []
            for told in held:
                self.order(told)
        elif there.run.work not in self._works:
            return  # it was cancelled, and what it does is for nobody
        elif message["what"] == "progress":
            self.controller.progress(there.run.work, message["step"])
        elif message["what"] == "full":
            self.controller.full(there.run.work, message["step"], message["nbytes"])
        elif "number" in message:
            # One thread trains and another stores: what they say may overtake.
            there.early[message["number"]] = message
            while (following := there.early.pop(there.told, None)) is not None:
                self._take(there, following)

    def _take(self, there: OnItsWay, message: Mapping[str, Any]) -> None:
        """Take in what a work says of itself, once, be it at once or at its end."""
        there.told += 1
        work, controller = there.run.work, self.controller
        match message:
            case {"what": "trained", "start": start, "stop": stop, "seconds": seconds}:
                controller.trained(work, start, stop, seconds)
            case {"what": "measured", "step": step, "metrics": metrics}:
                controller.measured(work, step, metrics)
            case {"what": "unsaved", "step": step, "kind": kind, "why": why}:
                controller.unsaved(work, step, kind, why)
            case {"what": "saved", "step": step, "name": name, "kind": kind}:
                controller.saved(work, step, name, kind)

    def _on_done(self, work: str) -> None:
        there = self._works.get(work)
        if there is None:
            return
        if there.future.status == "finished":
            try:
                ending = there.future.result(FETCH_S)  # it waits for ever where its trainer goes meanwhile
            except NO_ANSWER as cut:
                self._look()  # raises if it is the scheduler that is gone
                ending = {"end": "lost", "why": f"how it ended could not be fetched: {cut}"}
        elif there.future.status == "error":
            error = there.future.exception()
            ending = {"end": "error", "why": f"{type(error).__name__}: {error}"}
            if type(error).__name__ == "KilledWorker":
                ending["end"] = "lost"
        else:
            self._look()
            why = why_cut_off(there.future)
            ending = {"end": "withdrawn" if why else "lost", "why": why or "its task was cancelled by somebody else"}
        if work not in self._works:
            return  # its trainer is gone, which has been said
        for message in ending.get("told", ())[there.told :]:
            self._take(there, message)
        if "reached" in ending:
            self.controller.progress(work, ending["reached"])
        self._remove(there, evaluated=True)
        match ending["end"]:
            case "ended":
                self.controller.ended(work)
            case "gone":
                self.controller.vanished(work, ending["why"])
            case failure:
                self.controller.broke(work, failure, ending["why"])
        self._recycle(there.run.trainer)

    def _remove(self, there: OnItsWay, *, evaluated: bool) -> None:
        del self._works[there.run.work]
        if there.key not in self.trainers.stuck:
            self.trainers.give_back(there.run.trainer, there.key, evaluated=evaluated)
        there.future.release()

    def _on_restarted(self, name: str, error: Exception | None) -> None:
        self.trainers.has_restarted(name)
        if error is not None:
            self.event("restart failed", f"{name}: {error}")
        self._look()

    def _recycle(self, name: str) -> None:
        if self.upkeep.why_recycle(name):
            self.upkeep.recycle(name)
            self._compare()

    # Limits and trainers

    def watch(self) -> None:
        self._showing.look(self.controller)
        now = time.monotonic()
        if now - self._watched < TICK_S:
            return
        self._watched = now
        self._look()
        self.upkeep.check_any(now)
        self.demand.say(len(self._works) + len(self.controller.plan.wanted))
        for there in list(self._works.values()):
            self._mind(there, now)
        for name in list(self.trainers.present):
            self._recycle(name)

    def _mind(self, there: OnItsWay, now: float) -> None:
        name = there.run.trainer
        if there.future.done():
            return
        if not there.begun and now - there.heard > SETUP_S:
            self._see_others(there, now)
        silent = now - there.heard
        if self.trainers.is_silent(name):
            self._end(there, "lost", f"nothing was heard of trainer {name} for {SILENT_S:g} s")
        elif not there.begun and self.trainers.present[name].paused and silent > PAUSED_S:
            there.future.cancel(force=True)
            self._remove(there, evaluated=False)
            words = f"trainer {name} was paused for its memory before it had begun it"
            self.controller.broke(there.run.work, "withdrawn", words)
        elif not there.begun and silent > SETUP_S:
            self._end(there, "lost", f"trainer {name} did not begin it within {SETUP_S:g} s")
        elif self.step_limit_s is not None and silent > self.step_limit_s + (SETUP_S if not there.told else 0.0):
            limit = f"a step, a scoring or a snapshot took longer than its limit of {self.step_limit_s:g} s"
            self._end(there, "error", limit)

    def _see_others(self, there: OnItsWay, now: float) -> None:
        """See whether a trainer is busy for somebody else, and say so; then a work's time begins anew."""
        others = self.trainers.others_tasks(there.run.trainer, {one.key for one in self._works.values()})
        if not others:
            return
        there.heard = now
        if not there.is_waiting:
            there.is_waiting = True
            words = (
                f"it has not begun: {there.run.trainer} has {say_count(others, 'task')} of others, and does those first"
            )
            logger.warning("work %s: %s", there.run.work, words)
            self.controller.note(there.run.work, "waiting", words)

    def _end(self, there: OnItsWay, failure: Any, why: str) -> None:
        """End a work whose trainer doesn't get on, and that trainer's process if that can be done."""
        end = self.upkeep.end(there.future, there.run.trainer, there.key, f"work {there.run.work}")
        self._remove(there, evaluated=False)
        self.controller.broke(there.run.work, failure, f"{why}; {end}")
        self._compare()

    def _look(self) -> None:
        self.trainers.refresh()
        self._compare()

    def _compare(self) -> None:
        """Tell the controller who came and who went; one with a new address is another one."""
        busy = {there.run.trainer for there in self._works.values()}
        stuck = {str(trainer.name) for trainer in self.trainers.stuck.values()}
        usable = {
            name: trainer
            for name, trainer in self.trainers.present.items()
            if name not in self.trainers.restarting and name not in stuck and (trainer.running or name in busy)
        }
        for name, address in list(self._known.items()):
            if name not in usable or usable[name].address != address:
                del self._known[name]
                for there in [there for there in self._works.values() if there.run.trainer == name]:
                    there.future.cancel(force=True)
                    self._remove(there, evaluated=False)
                self.controller.went(name)
        for name, trainer in usable.items():
            if name not in self._known:
                self._known[name] = trainer.address
                self.controller.came(name, trainer.memory_bytes)
