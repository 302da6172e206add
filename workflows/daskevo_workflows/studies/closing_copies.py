"""Copies of all that is being trained, made before a study's time is over: the next session goes on from them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial

from daskevo_workflows.execution.deadline import Deadline
from daskevo_workflows.studies.controller import Controller

STEPS = 1.5
"""A copy is made after a work's next step, which may take so many times what a step takes."""

WAIT_SHARE = 0.5
"""Of what is kept for the end, copies may take so much: the rest is for closing the cluster."""

LOOK_S = 0.05


def time_to_copy(controller: Controller, origin: str, deadline: Deadline, now: float) -> bool:
    """Tell whether copies must be begun now to be there before the deadline."""
    lead_s = STEPS * controller.call(lambda: _step_s(controller, origin))
    return deadline.left_s(now) <= lead_s


def copy_all(controller: Controller, origin: str, deadline: Deadline, now: float) -> tuple[int, int]:
    """Have all works on trajectories of an origin keep a copy, and wait for them as long as the deadline allows.

    Works go on, for others may wait for them, too.

    Returns
    -------
    tuple
        How many works there were, and how many have a copy now or are over.
    """
    wait_s = deadline.at - now - deadline.margin_s * (1 - WAIT_SHARE)
    until = time.monotonic() + wait_s
    asked = controller.call(lambda: _ask(controller, origin))
    waiting = set(asked)
    while waiting and controller.failure is None and time.monotonic() < until:
        time.sleep(LOOK_S)
        waiting = controller.call(partial(_without, controller, asked, waiting))
    return len(asked), len(asked) - len(waiting)


def _ask(controller: Controller, origin: str) -> dict[str, int]:
    """Ask works that have begun for a copy; return the step that each had reached."""
    works = controller.scheduler.under_way.works
    return {work: works[work].reached for work in controller.works_of(origin) if controller.crew.copy(work)}


def _without(controller: Controller, asked: Mapping[str, int], waiting: Iterable[str]) -> set[str]:
    """Return the works that have no copy yet, and may still have one."""
    works, nodes = controller.scheduler.under_way.works, controller.plan.nodes
    return {
        work
        for work in waiting
        if work in works
        and not any(step > asked[work] for leg in works[work].legs for step in nodes[leg.node].snapshots)
    }


def _step_s(controller: Controller, origin: str) -> float:
    """Return the seconds that a step of those under way takes, at most; 0: nothing is."""
    works, costs = controller.scheduler.under_way.works, controller.scheduler.costs
    nodes = {leg.node for work in controller.works_of(origin) for leg in works[work].legs}
    return max((costs.step_s(node).seconds for node in nodes), default=0.0)
