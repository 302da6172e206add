"""What scripts are made of: messages, calls, acts and notes; how those of the product are run; rules to switch off."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol

from daskevo.errors import AttemptOver, SchedulerUnreachable
from daskevo.protocol import messages as ask
from daskevo.protocol import replies as say
from daskevo.protocol import steps
from daskevo.protocol.holders import Holder
from daskevo.types import Attempt, ModelId, Tick


@dataclass(frozen=True)
class Send:
    """A message to a shard; who is patient waits until somebody serves it."""

    shard: int
    message: ask.Message
    patient: bool = False


@dataclass(frozen=True)
class Ask:
    """A call of the coordinator: ``begin``, ``end``, ``over`` or ``tick``, and its arguments."""

    name: str
    args: tuple[Any, ...] = ()


Call = Send | Ask


@dataclass(frozen=True)
class Do:
    """An act on the script's own machine.

    A writer: ``write``, ``withdraw`` (shard, segment). The coordinator: ``take settling``, ``postpone``, ``settled``. A
    shard's provider, with that opening of the shard: ``handle``, ``snapshot``, ``delete``, ``write renewed``,
    ``take renewed``; with its folder alone: ``rename`` (shard, segment, bitmap of what the file holds).
    """

    name: str
    args: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Note:
    """A call of `Promises`: ``reserved``, ``given_back`` or ``issued``, and its arguments."""

    name: str
    args: tuple[Any, ...] = ()


Run = Generator[Any, Any, str | None]
P = ParamSpec("P")


class Stage(Protocol):
    """What a script knows of the world around it; none of it changes."""

    behaviour: Behaviour
    shards: int

    def home(self, model: ModelId) -> int:
        """Return the shard of a model."""
        ...


@dataclass(frozen=True)
class Script:
    """A script with its arguments, to be started any number of times."""

    function: Callable[..., Run]
    args: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def start(self, stage: Stage) -> Run:
        """Return it at its beginning."""
        return self.function(stage, *self.args, **dict(self.options))


def script(function: Callable[Concatenate[Stage, P], Run]) -> Callable[P, Script]:
    """Make calls of a generator function return a `Script`."""

    @wraps(function)
    def make(*args: P.args, **kwargs: P.kwargs) -> Script:
        return Script(function, args, tuple(kwargs.items()))

    return make


@dataclass(frozen=True)
class Behaviour:
    """Rules of the protocol that actors keep; tests switch one off to see that something is lost."""

    new_attempt_after_gone: bool = True
    abort_before_drops: bool = True
    leaving_ends_put: bool = True
    narrow_after_publish: bool = True
    segment_before_stage: bool = True
    settle_aborts_first: bool = True
    live_gets_no_verdict: bool = True
    silence_is_no_verdict: bool = True
    drops_unused_of_published: bool = True
    files_need_a_verdict: bool = True
    retirement_tries_again: bool = True
    retries: int = 2
    separate_publish: bool = True


Instead = Callable[[Any], Generator[Any, Any, Any]]
"""Carries a step of a script out, and returns what the script is sent back."""


def changed(script: steps.Script[Any], instead: Instead) -> Generator[Any, Any, Any]:
    """A script whose steps are carried out by `instead`, also those of the scripts in it that go on to their end."""
    resume: Callable[[Any], Any] = script.send
    sent: Any = None
    while True:
        try:
            step, sent = resume(sent), None
        except StopIteration as stop:
            return stop.value
        try:
            inner = changed(step.script, instead) if isinstance(step, steps.ToTheEnd) else instead(step)
            resume, sent = script.send, (yield from inner)
        except BaseException as error:  # noqa: BLE001 - the script decides what follows
            resume, sent = script.throw, error


def play(stage: Stage, script: steps.Script[Any], *, patient: bool = False) -> Generator[Any, Any, Any]:
    """Run a script of the product (`daskevo.protocol.scripts`); `patient` as in `Send`."""

    def carry_out(step: Any) -> Generator[Any, Any, Any]:
        match step:
            case steps.Together((ask.DropAttempt() as drop,)):
                answers = yield [Send(shard, drop) for shard in range(stage.shards)]
                return [None if None in answers else answers[0]]
            case steps.Together(messages):
                return (yield [send_to(stage, message, patient) for message in messages])
            case steps.End(attempt, settled):
                yield [end(attempt, settled=settled)]
            case steps.EndInBackground(attempt, drops):
                yield [*(send_to(stage, drop) for drop in drops), end(attempt)]
            case steps.Withdraw(model, attempt):
                yield Do("withdraw", (stage.home(model), (model, attempt)))
            case steps.OnOwnShard(messages):
                for message in messages:
                    yield Do("handle", (message,))
            case steps.TakeSnapshot():
                return (yield Do("snapshot"))
            case steps.DeleteFiles(files):
                yield Do("delete", (files,))
            case steps.AreOver(attempts):
                (over,) = (yield [Ask("over", (attempts,))]) if attempts else ((),)
                if over is None:
                    raise SchedulerUnreachable("the coordinator gives no answer")
                return frozenset(attempt for attempt, is_over in zip(attempts, over, strict=True) if is_over)
            case steps.Calculate():
                return step.work()
            case steps.IsServed():
                return True  # who runs at a provider ends with it
            case steps.TryLater():
                yield []
            case _:
                return (yield step)  # of the checker's own
        return None

    return changed(script, carry_out)


def send_to(stage: Stage, message: ask.Message, patient: bool = False) -> Send:
    """Address a message to the shard that it is for."""
    assert message.addressee is not None
    return Send(stage.home(message.addressee), message, patient)


def end(attempt: Attempt, *, settled: bool = True) -> Ask:
    """Tell the coordinator that an attempt is over."""
    return Ask("end", (attempt, settled))


def begin(stage: Stage, holder: Holder, model: ModelId | None) -> Generator[Any, Any, Attempt]:
    """Begin an attempt; raise AttemptOver if the holder is not live, or nobody answers."""
    answer = yield from retry(stage, Ask("begin", (holder, model)))
    if not isinstance(answer, Tick):
        raise AttemptOver(f"{holder} can't begin an attempt", model_id=model)
    return answer


def refer(stage: Stage, step: steps.Reserve) -> Generator[Any, Any, bool]:
    """Carry out a step of a script; from then on the tensors must stay."""
    answers = yield refers(stage, step)
    if not all(isinstance(answer, say.Reserved) for answer in answers):
        return False
    yield Note("reserved", (step.model, step.attempt, step.wanted))
    return True


def refers(stage: Stage, step: steps.Reserve) -> list[Send]:
    """Return the messages of a step."""
    wanted = step.wanted.items()
    return [send_to(stage, ask.Refer(owner, step.model, step.attempt, frozenset(n))) for owner, n in wanted]


def retry(stage: Stage, call: Call, tries: int | None = None) -> Generator[Any, Any, Any]:
    """Send the same message again until it is answered."""
    for _ in range(tries or stage.behaviour.retries):
        (answer,) = yield [call]
        if answer is not None:
            return answer
    return None
