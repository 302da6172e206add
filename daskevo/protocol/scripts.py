"""The sequences of the protocol: which messages, in which order, and what follows from which answer.

Each is a generator without I/O that yields steps (`daskevo.protocol.steps`). Product, model checker and simulator run
the same ones, so what the checker finds about the order of steps is true of the product.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from daskevo.errors import DaskevoError, ModelExists, ModelLost, ShardDamaged
from daskevo.protocol.attempts import Settle
from daskevo.protocol.audit import Remedies, claims_of, drops_all, question_to_home, remedies
from daskevo.protocol.messages import Abort, Drop, DropAttempt, FinishRetirement, Put
from daskevo.protocol.references import Claim
from daskevo.protocol.replies import Reply, Verdict
from daskevo.protocol.state import Retirement
from daskevo.protocol.steps import (
    AreOver,
    Begin,
    Calculate,
    DeleteFiles,
    End,
    EndInBackground,
    Find,
    IsServed,
    OnOwnShard,
    Reserve,
    Script,
    Step,
    TakeSnapshot,
    Together,
    ToTheEnd,
    TryLater,
    Withdraw,
)
from daskevo.types import Attempt, ModelId

T = TypeVar("T")


def retire(retirement: Retirement) -> Script[None]:
    """Drop a retiring model's references at all other owners, then record at its shard that it is retired.

    Retry until it is done or the shard has moved, whose next owner begins again. If an owner does not answer, the
    others still drop theirs, and only that owner is asked again.
    """
    owners = tuple(retirement.uses)
    while (yield IsServed()):
        trouble: object = None
        if owners:
            drops = tuple(Drop(owner, retirement.model, retirement.attempt) for owner in owners)
            answers = yield Together(drops)
            # An owner that is lost has no references any more.
            left = [(o, a) for o, a in zip(owners, answers, strict=True) if not isinstance(a, Reply | ModelLost)]
            owners = tuple(owner for owner, _ in left)
            trouble = next((answer for _, answer in left), None)
        # Only after all drops: the record of the retirement is what names the owners that still have to be asked.
        if not owners:
            trouble = yield OnOwnShard((FinishRetirement(retirement.model, retirement.attempt),))
            if trouble is None:
                return
        yield TryLater(trouble)


def settle(due: Settle) -> Script[bool]:
    """Settle an attempt that ended without a verdict on its put; return False if it has to be tried again later.

    The home decides first: if the put was committed there, its references must stay.
    """
    question = question_to_home((due.model, due.attempt))
    verdict = None
    if question is not None:
        (verdict,) = yield Together((question,))
        if not isinstance(verdict, Reply):
            return False
    if drops_all((due.model, due.attempt), verdict):
        # A provider that does not get this drops the references at its next audit.
        (heard,) = yield Together((DropAttempt(due.model, due.attempt),))
        return not isinstance(heard, DaskevoError)
    return True


def reserve(model: ModelId, *, again: bool) -> Script[Attempt | None]:
    """Begin an attempt to make a model, and reserve what it inherits; if that fails, try the next best ancestor.

    Each try has an attempt of its own: with one attempt for both, a late drop of the first try would remove the second
    try's reservation.

    Parameters
    ----------
    again:
        Whether there may be another ancestor to try; without it, None is returned if the first one can't be reserved.
    """
    while True:
        attempt: Attempt = yield Begin()
        if (yield from _ended_on_error(attempt, _try_next(model, attempt))):
            return attempt
        if not again:
            return None


def _try_next(model: ModelId, attempt: Attempt) -> Script[bool]:
    wanted = yield Find()
    if not wanted or (yield Reserve(model, attempt, wanted)):
        return True
    yield from give_back(model, attempt, wanted)
    return False


def read(wanted: Mapping[ModelId, Collection[int]]) -> Script[bool]:
    """Read tensors under an attempt that never publishes; return False if not all of them could be reserved."""
    attempt = yield Begin()
    reserved: bool = yield from _ended_on_error(attempt, _step(Reserve(None, attempt, wanted)))
    if reserved:
        # All tensors are here, so nobody needs to wait until the references are dropped.
        yield EndInBackground(attempt, tuple(Drop(owner, None, attempt) for owner in wanted))
    else:
        # Some owners may have reserved although others failed, so all are asked to drop.
        yield ToTheEnd(give_back(None, attempt, wanted))
    return reserved


@dataclass(frozen=True)
class PutOutcome:
    """What became of a put."""

    state: Literal["stored", "aborted", "unknown", "not sent"]
    answer: object
    """To the put."""
    verdict: object = None
    """Answer to the abort, where one was needed."""


def put(message: Put, reserved: Collection[ModelId], unused: Mapping[ModelId, frozenset[int]]) -> Script[PutOutcome]:
    """Stage and publish a model in one message, drop references that it does not use, and end the attempt.

    After any error, the put is aborted at the model's shard first, and only then are its references dropped: the model
    may have been published, and a published model must not lose tensors that it inherits.

    Parameters
    ----------
    reserved:
        Owners at which the attempt has references.
    unused:
        Those references that the model does not use, by owner.
    """
    model, attempt = message.record.model_id, message.record.attempt
    (answer,) = yield from _ended_on_error(attempt, _step(Together((message,))))
    if isinstance(answer, Verdict) and answer.state in ("published", "retiring", "retired"):
        yield EndInBackground(attempt, _narrow(model, attempt, unused))
        return PutOutcome("stored", answer)
    if isinstance(answer, ShardDamaged) and not answer.sent:
        # No provider has received the put, so the attempt was never staged, and needs no abort before the drops.
        yield ToTheEnd(give_back(model, attempt, reserved))
        return PutOutcome("not sent", answer)
    outcome: PutOutcome = yield ToTheEnd(_abort(message, reserved, unused, answer))
    return outcome


def _abort(
    message: Put, reserved: Collection[ModelId], unused: Mapping[ModelId, frozenset[int]], answer: object
) -> Script[PutOutcome]:
    """Ask the model's shard for the verdict on this attempt, and act on it."""
    model, attempt = message.record.model_id, message.record.attempt
    (verdict,) = yield Together((Abort(model, attempt),))
    if not isinstance(verdict, Verdict) or verdict.state == "lost":
        yield End(attempt, settled=False)
        return PutOutcome("unknown", answer, verdict)
    if verdict.state in ("published", "retiring"):
        yield EndInBackground(attempt, _narrow(model, attempt, unused))
        return PutOutcome("stored", answer, verdict)
    # The shard has confirmed that this attempt can never publish. Only now remove the file, drop the references, and
    # end the attempt, in this order.
    if verdict.state == "aborted":
        yield Withdraw(model, attempt)
    yield from give_back(model, attempt, reserved)
    return PutOutcome("stored" if verdict.state == "retired" else "aborted", answer, verdict)


def _narrow(model: ModelId, attempt: Attempt, unused: Mapping[ModelId, frozenset[int]]) -> tuple[Drop, ...]:
    """Only after publish: nothing has to be settled then, and the audit makes up for lost drops."""
    return tuple(Drop(owner, model, attempt, numbers) for owner, numbers in unused.items())


def _ended_on_error(attempt: Attempt, script: Script[T]) -> Script[T]:
    """Run a script of an attempt; if it is interrupted or fails, end the attempt."""
    try:
        return (yield from script)
    except GeneratorExit:
        raise  # nobody runs this script any more
    except ModelExists:
        yield EndInBackground(attempt)  # found before anything was reserved
        raise
    except BaseException:
        # What was sent may have been carried out or not: only the coordinator can find out, when it settles.
        yield ToTheEnd(_step(End(attempt, settled=False)))
        raise


def _step(step: Step) -> Script[Any]:
    return (yield step)


def audit(*, give_up_lost: bool = False) -> Script[int]:
    """Drop the claims of attempts that have ended without publishing; return the number of drops and deleted files.

    It runs beside all other work. Without an answer, a claim stays. `give_up_lost` as in `remedies`.
    """
    snapshot = yield TakeSnapshot()
    claims: list[Claim] = yield Calculate(partial(claims_of, snapshot))
    over: frozenset[Attempt] = yield AreOver(tuple(sorted({attempt for _, attempt in claims})))
    asked = [(claim, home) for claim in claims if claim[1] in over and (home := question_to_home(claim)) is not None]
    answers = (yield Together(tuple(question for _, question in asked))) if asked else ()
    verdicts = {
        claim: answer if isinstance(answer, Reply) else None for (claim, _), answer in zip(asked, answers, strict=True)
    }
    found: Remedies = yield Calculate(partial(remedies, snapshot, over, verdicts, give_up_lost=give_up_lost))
    if found.drops:
        yield OnOwnShard(found.drops)
    if found.files:
        yield DeleteFiles(found.files)
    return len(found.drops) + len(found.files)


def give_back(model: ModelId | None, attempt: Attempt, owners: Iterable[ModelId]) -> Script[None]:
    """Drop all reservations of an attempt that can't publish any more, then end it.

    Drops that were not answered are left to the coordinator, which settles the attempt, and to the audit.
    """
    drops = tuple(Drop(owner, model, attempt) for owner in owners)
    answers = (yield Together(drops)) if drops else ()
    yield End(attempt, settled=all(isinstance(answer, Reply) for answer in answers))
