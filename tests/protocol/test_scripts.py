"""Scripts of the protocol that are interrupted, and what the driver does then."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from daskevo.client.run_script import run_script
from daskevo.errors import ModelExists
from daskevo.protocol import scripts
from daskevo.protocol.messages import Abort, Drop, Put
from daskevo.protocol.replies import Ok, Verdict
from daskevo.protocol.steps import (
    Begin,
    End,
    EndInBackground,
    Find,
    Reserve,
    Script,
    Step,
    Together,
    ToTheEnd,
    Withdraw,
)
from daskevo.types import ModelId, Tick
from tests.protocol.checker.actors import make_record

CHILD, A, B = (ModelId(name) for name in ("child", "a", "b"))
ATTEMPT = Tick(1, 1)
PUT = Put(make_record(CHILD, ATTEMPT, {}, None), {"user:kept": ATTEMPT})


def answer_to(step: Step) -> Any:
    """Nothing is there any more, and home confirms aborts."""
    match step:
        case Begin():
            return ATTEMPT
        case Find():
            return {A: {0}, B: {1}}
        case Reserve():
            return False
        case Together(messages):
            return [Verdict("aborted", ATTEMPT) if isinstance(message, Abort) else Ok() for message in messages]
    return None


def interrupted(script: Script[Any], after: int) -> list[Step] | None:
    """Interrupt a script at a step; return what it does then, None if it has ended before."""
    try:
        step = next(script)
        for _ in range(after):
            step = script.send(answer_to(step))
    except StopIteration:
        return None
    done: list[Step] = []
    try:
        step = script.throw(asyncio.CancelledError())
        while True:
            assert isinstance(step, ToTheEnd), "whoever is interrupted again stops nothing"
            done += list(step.script)
            step = script.send(None)
    except asyncio.CancelledError:
        return done


@pytest.mark.parametrize(
    "make",
    [lambda: scripts.reserve(CHILD, again=False), lambda: scripts.read({A: {0}})],
    ids=["reserve", "read"],
)
def test_whoever_is_interrupted_leaves_it_to_the_coordinator(make: Any) -> None:
    assert interrupted(make(), 0) == []  # it has no attempt yet
    found = [interrupted(make(), after) for after in range(1, 8)]
    told = [done for done in found if done is not None]
    assert len(told) >= 2
    # What goes to its end anyway needs nobody to be told.
    assert all(done in ([End(ATTEMPT, settled=False)], []) for done in told)
    assert told[0] == [End(ATTEMPT, settled=False)]


def test_a_put_that_is_interrupted_is_left_to_the_coordinator() -> None:
    assert interrupted(scripts.put(PUT, [A], {}), 0) == [End(ATTEMPT, settled=False)]


def test_an_id_that_is_taken_needs_no_settling() -> None:
    script = scripts.reserve(CHILD, again=True)
    next(script)
    assert script.send(ATTEMPT) == Find()
    assert script.throw(ModelExists("taken")) == EndInBackground(ATTEMPT)
    with pytest.raises(ModelExists):
        script.send(None)


def test_a_script_that_nobody_runs_any_more_does_nothing() -> None:
    for script in (scripts.put(PUT, [A], {}), scripts.reserve(CHILD, again=True), scripts.read({A: {0}})):
        next(script)
        script.close()


def test_an_abort_goes_on_although_nobody_waits_for_it() -> None:
    """The driver: what was interrupted while the abort is under way has aborted, withdrawn, dropped and ended."""
    done: list[Step] = []

    async def run() -> None:
        asked, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def carry_out(step: Step) -> Any:
            match step:
                case Together((Put(),)):
                    return [None]
                case Together((Abort(),)):
                    asked.set()
                    await go_on.wait()
            done.append(step)
            if isinstance(step, End):
                ended.set()
            return answer_to(step)

        putting = asyncio.ensure_future(run_script(scripts.put(PUT, [A], {}), carry_out))
        await asked.wait()
        putting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await putting
        go_on.set()
        await ended.wait()

    asyncio.run(run())
    assert done == [
        Together((Abort(CHILD, ATTEMPT),)),
        Withdraw(CHILD, ATTEMPT),
        Together((Drop(A, CHILD, ATTEMPT),)),
        End(ATTEMPT, settled=True),
    ]


def test_messages_that_go_together() -> None:
    """Owners are asked at the same time: to reserve, to drop what is not used, and to end."""
    script = scripts.reserve(CHILD, again=False)
    steps = [next(script)]
    with contextlib.suppress(StopIteration):
        while True:
            steps.append(script.send(answer_to(steps[-1])))
    drops = tuple(Drop(owner, CHILD, ATTEMPT) for owner in (A, B))
    reserve = Reserve(CHILD, ATTEMPT, {A: {0}, B: {1}})
    assert steps == [Begin(), Find(), reserve, Together(drops), End(ATTEMPT, settled=True)]
    script_of_put = scripts.put(PUT, [A], {A: frozenset({1})})
    assert next(script_of_put) == Together((PUT,))
    stored = script_of_put.send([Verdict("published", ATTEMPT)])
    assert stored == EndInBackground(ATTEMPT, (Drop(A, CHILD, ATTEMPT, frozenset({1})),))
