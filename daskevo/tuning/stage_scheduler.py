"""The stage scheduler: decides what each trainer trains next. Events in, instructions out; no clock, no I/O.

All events only update its state; then :meth:`Scheduler.decide` builds a stage tree, ends tasks that no request needs,
and gives free trainers paths of stages (paper 002, section 4.3). The simulator and the cluster use the same code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from daskevo.errors import InvalidInput
from daskevo.planning import LossKind
from daskevo.tuning.cost import Costs
from daskevo.tuning.instructions import Answer, Halt, Instruction, Refuse, Run, Save
from daskevo.tuning.placement import PlacedTrainer, Placing
from daskevo.tuning.plan import SearchPlan, State, Waiter
from daskevo.tuning.policies import POLICIES, Policy, Queued, best_path
from daskevo.tuning.running_stages import RunningStages, StageMark, Work
from daskevo.tuning.stages import StageTree, TrainingStage, stage_tree
from daskevo.tuning.trajectory import Trajectory

Failure = Literal["error", "out of memory"] | LossKind
"""``error``: training or evaluating raised, or returned non-finite numbers; or how the task was lost."""


class Scheduler:
    """Schedules any number of studies on any number of trainers.

    Parameters
    ----------
    plan, costs:
        Plan and measured costs; may contain results of an earlier study.
    policy:
        Order of stages.
    batched:
        True: a trainer gets a whole path, so that the model stays in memory from stage to stage; False: one stage at a
        time, each loaded from its snapshot, as in the paper's comparison of policies.
    queued:
        True: stages stay in the order in which they were first seen, as in the paper; False: each decision orders all
        of them anew.

    Examples
    --------
    >>> from daskevo.tuning import Configuration, Constant, concatenate
    >>> scheduler = Scheduler()
    >>> one = Trajectory("m", Configuration({"lr": Constant(0.1)}))
    >>> two = Trajectory("m", Configuration({"lr": concatenate(Constant(0.1), (4, Constant(0.01)))}))
    >>> scheduler.add("one", one, 6), scheduler.add("two", two, 9), scheduler.trainer("gpu-0")
    ([], [], [])
    >>> [run] = scheduler.decide()
    >>> run.trajectory == two, run.start, run.marks
    (True, 0, ((4, False), (9, True)))
    >>> scheduler.saved(run.work, 4, "s4"), scheduler.trainer("gpu-1")
    ([], [])
    >>> [other] = scheduler.decide()
    >>> other.trajectory == one, other.start, other.snapshot, other.marks
    (True, 4, 's4', ((6, True),))
    >>> scheduler.measured(other.work, 6, {"accuracy": 0.9})
    [Answer(waiter='one', step=6, metrics={'accuracy': 0.9})]
    """

    def __init__(
        self,
        plan: SearchPlan | None = None,
        costs: Costs | None = None,
        policy: Policy = "critical path",
        *,
        batched: bool = True,
        queued: bool = False,
    ) -> None:
        if policy not in POLICIES:
            raise InvalidInput(f"policy={policy!r:.40}: use one of {sorted(POLICIES)}")
        self.plan = plan or SearchPlan()
        self.costs = costs or Costs(self.plan)
        self.policy: Policy = policy
        self.batched = batched
        self._queue = Queued(policy) if queued else None
        self._order = self._queue or POLICIES[policy]
        self.trainers: dict[str, PlacedTrainer] = {}
        self.under_way = RunningStages()
        self._given = 0
        self.placing = Placing(self.trainers)
        self.beyond: list[State] = []
        """End states of stages that would begin now if a trainer had enough memory."""

    # Events of trials

    def add(self, waiter: Waiter, trajectory: Trajectory, step: int) -> list[Instruction]:
        """Add a request; raises InvalidInput like :meth:`SearchPlan.request`.

        It is answered at once if the metrics are known.
        """
        standing = self.plan.request(waiter, trajectory, step)
        if standing.metrics is not None:
            return [Answer(waiter, step, standing.metrics)]
        if standing.failure is not None:
            return [Refuse(waiter, step, standing.failure)]
        return []

    def remove(self, waiter: Waiter) -> list[Instruction]:
        """Withdraw a request. Tasks that no request needs then are ended by the next :meth:`decide`."""
        self.plan.withdraw(waiter)
        return []

    # Events of trainers

    def trainer(self, name: str, memory_bytes: int = 0) -> list[Instruction]:
        """Add a trainer; a repeated call changes nothing. A trainer that died must first be removed with `left`."""
        self.trainers.setdefault(name, PlacedTrainer(name)).memory_bytes = memory_bytes
        return []

    def left(self, name: str) -> list[Instruction]:
        """Remove a trainer that died or left, and its task."""
        told: list[Instruction] = []
        gone = self.trainers.pop(name, None)
        if gone is not None and gone.work is not None:
            told = self.failed(gone.work, "died", f"trainer {name} died or left")
        return told

    # Events of tasks

    def progress(self, work: str, step: int) -> None:
        """Note the step that a task has reached."""
        if (there := self.under_way.works.get(work)) is not None:
            there.reached = max(there.reached, step)

    def saved(self, work: str, step: int, name: str) -> list[Instruction]:
        """Note that the state at a task's step is stored under a name."""
        if (there := self.under_way.works.get(work)) is not None and (state := there.state_at(step)) is not None:
            there.reached = max(there.reached, step)
            self.plan.saved(state, name)
            # The next loss costs only what follows this state, so a stage that gets on is not given up.
            if (stage := there.failing()) is not None:
                self.placing.losses.forget(stage)
            if step in there.marks:
                there.marks[step].saved = True
        return []

    def measured(self, work: str, step: int, metrics: Mapping[str, float]) -> list[Instruction]:
        """Store the metrics of a task's step."""
        there = self.under_way.works.get(work)
        if there is None or (state := there.state_at(step)) is None:
            return []
        there.reached = max(there.reached, step)
        if step in there.marks:
            there.marks[step].measured = True
        return [Answer(waiter, step, metrics) for waiter in self.plan.measured(state, metrics)]

    def missed(self, work: str, step: int) -> None:
        """Note that a task had already passed the step where it should save: that is trained again for requests."""
        if (there := self.under_way.works.get(work)) is not None:
            there.marks.pop(step, None)
            there.reached = max(there.reached, step)

    def ended(self, work: str) -> None:
        """Note that a task has ended, as planned or because it was told to; its saves have been reported."""
        if (over := self.under_way.pop(work)) is not None and over.trainer in self.trainers:
            trainer = self.trainers[over.trainer]
            trainer.work = None
            # A halted task ended at some step between, and so holds no state that has a name.
            trainer.holds = over.legs[-1] if self.batched and not over.halted else None

    def failed(self, work: str, failure: Failure, why: str) -> list[Instruction]:
        """Note that a task ended in the middle; its trainer is free, unless it was lost.

        After an error, all requests for the stage's end and beyond fail. Out of memory, the stage is tried once more,
        on the trainer with the most memory. Lost, it is repeated from the last snapshot as often as
        :class:`daskevo.planning.Losses` allows.
        """
        over = self.under_way.pop(work)
        if over is None:
            return []
        trainer = self.trainers.get(over.trainer)
        if trainer is not None:
            trainer.work = None
        is_lost = failure not in ("error", "out of memory")
        failing = over.failing(lost=is_lost)
        if failing is None or over.stopping:
            return []
        match failure:
            case "error":
                pass
            case "out of memory":
                if trainer is not None:
                    figures = self.placing.ran_out(failing, trainer, over.reached)
                    if figures is None:
                        return []
                    why = f"{figures}: {why}"
            case lost:
                times = self.placing.losses.count(failing, lost)
                if times is None:
                    return []
                why = f"this stage was lost {times} times, the last time because {why}"
        waited = self.plan.failed(failing, why, lasting=not is_lost)
        return [Refuse(waiter, state.step, why) for waiter, state in waited.items()]

    def give_up(self, end: State) -> list[Instruction]:
        """Fail the requests for a stage of `beyond`, since no larger trainer comes; later requests are tried again."""
        why = self.placing.why_beyond(end)
        return [Refuse(waiter, state.step, why) for waiter, state in self.plan.failed(end, why, lasting=False).items()]

    def gone(self, trajectory: Trajectory, step: int) -> None:
        """Note that a snapshot is gone or corrupt: it is recomputed if needed."""
        self.plan.gone(self.plan.locate(trajectory, step))

    # Decisions

    def decide(self) -> list[Instruction]:
        """Return the instructions to carry out now."""
        told: list[Instruction] = []
        tree = self._tree()
        for stage in tree.stages:
            # A running task that passes there can save on its way, which is cheaper than training the steps again.
            for work in self.under_way.passing(stage.end):
                if work.mark(stage.stop, evaluate=stage.evaluate):
                    told.append(Save(work.key, work.trainer, stage.stop, work.marks[stage.stop].evaluate))
                break
        # The tasks promise more than before.
        if told:
            tree = self._tree()
        self.beyond = [stage.end for stage in tree.stages if stage.ready and self.placing.is_beyond(stage)]
        return [*told, *self._end_unwanted(tree), *self._give(tree)]

    def _tree(self) -> StageTree:
        return stage_tree(self.plan, self.under_way.promises())

    def _end_unwanted(self, tree: StageTree) -> list[Instruction]:
        told: list[Instruction] = []
        for work in self.under_way.works.values():
            last = max((step for step in work.marks if work.state_at(step) in tree.awaited), default=None)
            # It was told already, is needed to its end, or has trained its last step and is about to end.
            if work.stopping or last == work.stop or work.reached >= work.stop:
                continue
            at_once = last is None or last <= work.reached
            if last is None:
                work.stopping = True
            else:
                work.shorten(last)
            work.halted = at_once
            told.append(Halt(work.key, work.trainer, None if at_once else last))
        return told

    def _give(self, tree: StageTree) -> list[Run]:
        """Assign the best paths to free trainers."""
        free = [trainer for trainer in self.trainers.values() if trainer.work is None]
        ready = [stage.number for stage in tree.stages if stage.ready]
        given: list[Run] = []
        # A queue takes in what is asked for while no trainer is free.
        if self._queue is None and (not free or not ready):
            return given
        seconds = [self.costs.stage_s(stage) for stage in tree.stages]
        ranks = self._order(self.plan, tree, seconds)
        while free and ready:
            numbers = best_path(tree, ranks, ready, batched=self.batched)
            # Removed even if no trainer fits it now: the next best may fit.
            ready.remove(numbers[0])
            path = [tree.stages[number] for number in numbers]
            trainer = self.placing.place(path[0], free)
            if trainer is not None:
                free.remove(trainer)
                given.append(self._run(path, trainer, seconds))
        return given

    def _run(self, path: Sequence[TrainingStage], trainer: PlacedTrainer, seconds: Sequence[float]) -> Run:
        fits = 1  # the first stage does
        while fits < len(path) and self.placing.fits(path[fits], trainer):
            fits += 1
        path = path[:fits]
        first = path[0]
        work = Work(
            key=f"work-{self._given}",
            trainer=trainer.name,
            start=first.start,
            legs=[stage.end for stage in path],
            marks={stage.stop: StageMark(stage.evaluate) for stage in path},
            reached=first.start,
        )
        self._given += 1
        in_memory = first.source is not None and trainer.holds == first.source
        # The new training takes the place of the state in memory.
        trainer.work, trainer.holds = work.key, None
        self.under_way.add(work)
        source = first.source
        return Run(
            work=work.key,
            trainer=trainer.name,
            trajectory=self.plan.trajectory(path[-1].end),
            start=first.start,
            snapshot=None if source is None else self.plan.nodes[source.node].snapshots[source.step],
            in_memory=in_memory,
            marks=tuple((step, mark.evaluate) for step, mark in work.marks.items()),
            estimated_s=self.costs.start_s + sum(seconds[stage.number] for stage in path),
        )
