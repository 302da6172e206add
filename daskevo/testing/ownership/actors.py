"""What happens around the shards, as scripts: put, read, hold, release, retire, settle, audit - step by step.

A script is a generator that touches nothing itself: it yields what it wants done and is sent what came of it, so that
`World` can run it, and `exhaustive` can take it up again from any point of its history.

- a list of calls (`Send`, `Ask`), all sent at once -> their answers, None: none in time; an empty list is a pause
- `Do`: something on its own machine, which no network loses -> its result
- `Note`: what it may rely on from then on, for the promises -> None

What a script has not finished with stands in its locals, also in loops, whose items differ: `exhaustive` compares them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol

from daskevo.ownership import messages as ask
from daskevo.ownership import replies as say
from daskevo.ownership.audit import claims_of, drops_all, question_to_home, remedies
from daskevo.ownership.holders import Holder
from daskevo.ownership.model_record import ModelRecord
from daskevo.ownership.owner_map import OwnerEntry, OwnerMap
from daskevo.ownership.references import Claim, Segment
from daskevo.ownership.state import Retirement
from daskevo.types import Attempt, ModelId, TensorSpec, Tick

TENSORS = 3
"""Tensors per model: 0 is inherited unchanged, 1 inherited and changed, 2 never inherited."""


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

    A writer: ``write`` (shard, segment). The coordinator: ``take settling``, ``postpone``, ``settled``. A shard's
    provider, with that opening of the shard: ``serving``, ``handle``, ``snapshot``, ``delete``, ``write renewed``,
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
    narrow_after_publish: bool = True
    segment_before_stage: bool = True
    settle_aborts_first: bool = True
    live_gets_no_verdict: bool = True
    silence_is_no_verdict: bool = True
    drops_unused_of_published: bool = True
    files_need_a_verdict: bool = True
    retirement_drops: bool = True
    retries: int = 2
    separate_publish: bool = True


@script
def put(
    stage: Stage,
    holder: Holder,
    model: ModelId,
    ancestor: ModelId | None = None,
    fallback: ModelId | None = None,
    labels: tuple[str, ...] = ("user:a",),
) -> Run:
    """Make a model: begin, open, reserve, train, stage, publish, narrow, end. Returns put's verdict."""
    attempt = yield from _begin(stage, holder, model)
    if attempt is None:
        return "not live"
    inherited: dict[int, OwnerEntry] | None = {}
    used = None
    for candidate in (ancestor, fallback):
        if candidate is None:
            continue
        inherited = yield from _reserve(stage, model, attempt, candidate)
        if inherited is not None:
            used = candidate
            break
        if stage.behaviour.new_attempt_after_gone:
            yield [_end(attempt)]
            attempt = yield from _begin(stage, holder, model)
            if attempt is None:
                return "not live"
    inherited = inherited or {}
    yield []  # training
    kept = {number: entry for number, entry in inherited.items() if number == 0}
    record = make_record(model, attempt, kept, used if inherited else None)
    owners = sorted({entry.owner for entry in inherited.values()})
    narrow = [
        send_to(stage, ask.Drop(owner, model, attempt, numbers))
        for owner in owners
        if (numbers := frozenset(e.number for e in inherited.values() if e.owner == owner and e not in kept.values()))
    ]
    if narrow and not stage.behaviour.narrow_after_publish:
        yield list(narrow)
    tick = yield from _retry(stage, Ask("tick"))
    for label in labels:
        yield Note("issued", (model, label, tick or attempt, True))
    answer = yield from _stage_and_publish(stage, record, dict.fromkeys(labels, tick or attempt))
    if isinstance(answer, say.Verdict) and answer.attempt == attempt and answer.state != "aborted":
        if narrow:
            yield list(narrow)
        yield [_end(attempt)]
        return "stored"
    return (yield from _give_up(stage, model, attempt, owners, answer))


def _reserve(
    stage: Stage, model: ModelId, attempt: Attempt, ancestor: ModelId
) -> Generator[Any, Any, dict[int, OwnerEntry] | None]:
    """Return the entries of tensors 0 and 1 that are reserved now; {}: no such ancestor; None: gone, given back."""
    (opened,) = yield [send_to(stage, ask.Open(ancestor))]
    if not isinstance(opened, say.Opened):
        return {}
    entries = {number: opened.record.owner_map.entries[number] for number in (0, 1)}
    wanted: dict[ModelId, frozenset[int]] = {}
    for entry in entries.values():
        wanted[entry.owner] = wanted.get(entry.owner, frozenset()) | {entry.number}
    answers = yield [send_to(stage, ask.Refer(o, model, attempt, n)) for o, n in wanted.items()]
    if all(isinstance(answer, say.Reserved) for answer in answers):
        yield Note("reserved", (model, attempt, wanted))
        return entries
    yield [send_to(stage, ask.Drop(owner, model, attempt)) for owner in wanted]
    return None


def _stage_and_publish(stage: Stage, record: ModelRecord, labels: dict[str, Tick]) -> Generator[Any, Any, Any]:
    home = stage.home(record.model_id)
    segment = (record.model_id, record.attempt)
    if stage.behaviour.segment_before_stage:
        yield Do("write", (home, segment))
        yield []  # written, and not yet staged
    if not stage.behaviour.separate_publish:
        answer = yield from _retry(stage, Send(home, ask.Put(record, labels, 1)))
    else:
        answer = yield from _retry(stage, Send(home, ask.Stage(record, 1)))
        if isinstance(answer, say.Ok):
            answer = yield from _retry(stage, Send(home, ask.Publish(record.model_id, record.attempt, labels)))
    if not stage.behaviour.segment_before_stage:
        yield Do("write", (home, segment))
    return answer


def _give_up(stage: Stage, model: ModelId, attempt: Attempt, owners: list[ModelId], answer: Any) -> Run:
    drops = [send_to(stage, ask.Drop(owner, model, attempt)) for owner in owners]
    yield Note("given_back", (attempt,))
    if not stage.behaviour.abort_before_drops and drops:
        yield drops
    verdict = yield from _retry(stage, send_to(stage, ask.Abort(model, attempt)))
    if not isinstance(verdict, say.Verdict):
        yield [_end(attempt, settled=False)]
        return "unknown"
    if verdict.state == "aborted" and drops:
        yield drops
    yield [_end(attempt)]
    if verdict.state != "aborted":
        return "stored"
    by_another = isinstance(answer, say.Refused) and answer.reason in ("published", "retiring", "retired")
    return "stored by another" if by_another else "failed"


@script
def read(stage: Stage, holder: Holder, model: ModelId) -> Run:
    """Read a whole model under a reader's attempt."""
    attempt = yield from _begin(stage, holder, None)
    if attempt is None:
        return "not live"
    (opened,) = yield [send_to(stage, ask.Open(model))]
    outcome = "gone"
    if isinstance(opened, say.Opened):
        uses = opened.record.owner_map.owners
        answers = yield [send_to(stage, ask.Refer(owner, None, attempt, numbers)) for owner, numbers in uses.items()]
        if all(isinstance(answer, say.Reserved) for answer in answers):
            yield Note("reserved", (None, attempt, uses))
            yield []  # reading
            outcome = "read"
        yield Note("given_back", (attempt,))
        yield [send_to(stage, ask.Drop(owner, None, attempt)) for owner in uses]
    yield [_end(attempt)]
    return outcome


@script
def hold(stage: Stage, model: ModelId, label: str) -> Run:
    """Add a label to a model."""
    tick = yield from _retry(stage, Ask("tick"))
    if tick is None:
        return "no tick"
    yield Note("issued", (model, label, tick, True))
    answer = yield from _retry(stage, send_to(stage, ask.Hold(model, label, tick)))
    return "held" if isinstance(answer, say.Labelled) else "refused"


@script
def release(stage: Stage, model: ModelId, label: str) -> Run:
    """Take a label from a model."""
    tick = yield from _retry(stage, Ask("tick"))
    if tick is None:
        return "no tick"
    yield Note("issued", (model, label, tick, False))
    yield from _retry(stage, send_to(stage, ask.Release(model, label, tick)))
    return "released"


@script
def release_label(stage: Stage, label: str) -> Run:
    """Take a label from all models of all shards, until each shard has answered."""
    tick = yield from _retry(stage, Ask("tick"))
    if tick is None:
        return "no tick"
    yield Note("issued", (None, label, tick, False))
    for shard in range(stage.shards):
        yield from _retry(stage, Send(shard, ask.ReleaseLabel(label, tick)), tries=5)
    return "released"


@script
def in_turn(stage: Stage, *scripts: Script) -> Run:
    """One script after the other."""
    outcome = None
    for after in scripts:
        outcome = yield from after.start(stage)
    return outcome


@script
def retire(stage: Stage, retirement: Retirement) -> Run:
    """Home's provider carries a retirement out: drops at all other owners, then the tombstone."""
    for owner in retirement.uses if stage.behaviour.retirement_drops else ():
        drop = Send(stage.home(owner), ask.Drop(owner, retirement.model, retirement.attempt), patient=True)
        while (yield [drop]) == [None]:
            if not (yield Do("serving")):
                return "home went"
    if (yield Do("serving")):
        yield Do("handle", (ask.FinishRetirement(retirement.model, retirement.attempt),))
    return "retired"


@script
def settle(stage: Stage) -> Run:
    """The coordinator settles attempts that ended without a word about their put."""
    dues = yield Do("take settling")
    for due in dues:
        verdict = None
        if due.model is not None and stage.behaviour.settle_aborts_first:
            (verdict,) = yield [send_to(stage, ask.Abort(due.model, due.attempt))]
            if verdict is None:
                yield Do("postpone", (due,))
                continue
        if drops_all((due.model, due.attempt), verdict) or not stage.behaviour.settle_aborts_first:
            yield [Send(shard, ask.DropAttempt(due.model, due.attempt)) for shard in range(stage.shards)]
        yield Do("settled", (due,))
    return "settled"


@script
def audit(stage: Stage) -> Run:
    """A provider audits one of its shards."""
    rules = stage.behaviour
    if not (yield Do("serving")):
        return "not served"
    snapshot = yield Do("snapshot")
    if not rules.files_need_a_verdict:
        unnamed = {view.segment for view in snapshot.files} - snapshot.named_files
        yield Do("delete", (tuple(sorted(unnamed)),))
    claims = claims_of(snapshot)
    (over,) = yield [Ask("over", (tuple(attempt for _, attempt in claims),))]
    if over is None:
        return "no coordinator"
    ended = [claim for claim, is_over in zip(claims, over, strict=True) if is_over or not rules.live_gets_no_verdict]
    asked = [claim for claim in ended if question_to_home(claim) is not None]
    answers: list[Any] = []
    if asked:
        questions = [question_to_home(claim) for claim in asked]
        answers = yield [send_to(stage, question) for question in questions if question is not None]
    verdicts: dict[Claim, Any] = dict(zip(asked, answers, strict=True))
    for claim in asked:
        if verdicts[claim] is None and not rules.silence_is_no_verdict:
            verdicts[claim] = say.Verdict("aborted", claim[1])
    found = remedies(snapshot, {attempt for _, attempt in ended}, verdicts)
    for drop in found.drops:
        verdict = verdicts.get((drop.model, drop.attempt))
        published = isinstance(verdict, say.Verdict) and verdict.state == "published"
        if rules.drops_unused_of_published or not published:
            yield Do("handle", (drop,))
    if found.files:
        yield Do("delete", (found.files,))
    return "audited"


@script
def renew(stage: Stage) -> Run:
    """A provider that has just seen that a shard is its own lets the journal start anew from the present state."""
    if (yield Do("write renewed")):
        yield Do("take renewed")
    return None


@script
def rewrite(stage: Stage, shard: int, segment: Segment, mask: int) -> Run:
    """A file that is written anew takes its name at any later time, whoever owns the shard by then."""
    yield Do("rename", (shard, segment, mask))
    return None


@script
def move(stage: Stage, shard: int) -> Run:
    """A shard gets another owner, some time."""
    yield []
    yield Do("open", (shard,))
    return None


@script
def reopen(stage: Stage, shard: int) -> Run:
    """A new coordinator has a shard opened, some time."""
    yield []
    yield Do("reopen", (shard,))
    return None


def send_to(stage: Stage, message: ask.Message) -> Send:
    """Address a message to the shard that it is for."""
    assert message.addressee is not None
    return Send(stage.home(message.addressee), message)


def make_record(
    model: ModelId, attempt: Attempt, inherited: dict[int, OwnerEntry], ancestor: ModelId | None
) -> ModelRecord:
    """Return the record of a model with three tensors, of which `inherited` are somebody else's."""
    entries = [inherited.get(number, OwnerEntry(model, number, "0" * 32, 1)) for number in range(TENSORS)]
    own = {number: TensorSpec((2,), "float32") for number in range(TENSORS) if number not in inherited}
    return ModelRecord(model, attempt, "scope", None, OwnerMap.of(entries), own, attempt, ancestor=ancestor)


def _end(attempt: Attempt, *, settled: bool = True) -> Ask:
    return Ask("end", (attempt, settled))


def _begin(stage: Stage, holder: Holder, model: ModelId | None) -> Generator[Any, Any, Any]:
    answer = yield from _retry(stage, Ask("begin", (holder, model)))
    return answer if isinstance(answer, Tick) else None


def _retry(stage: Stage, call: Call, tries: int | None = None) -> Generator[Any, Any, Any]:
    """Send the same message again until it is answered."""
    for _ in range(tries or stage.behaviour.retries):
        (answer,) = yield [call]
        if answer is not None:
            return answer
    return None
