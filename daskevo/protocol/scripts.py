"""The sequences of the protocol: which messages, in which order, and what follows from which answer.

Each is a generator without I/O that yields steps (`daskevo.protocol.steps`). Product, model checker and simulator run
the same ones, so what the checker finds about the order of steps is true of the product.
"""

from __future__ import annotations

from collections.abc import Iterable

from daskevo.errors import DaskevoError, ModelLost
from daskevo.protocol.attempts import Settle
from daskevo.protocol.audit import drops_all, question_to_home
from daskevo.protocol.messages import Drop, DropAttempt, FinishRetirement
from daskevo.protocol.replies import Reply
from daskevo.protocol.state import Retirement
from daskevo.protocol.steps import End, IsServed, OnOwnShard, Script, Together, TryLater
from daskevo.types import Attempt, ModelId


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
            trouble = yield OnOwnShard(FinishRetirement(retirement.model, retirement.attempt))
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


def give_back(model: ModelId | None, attempt: Attempt, owners: Iterable[ModelId]) -> Script[None]:
    """Drop all reservations of an attempt that can't publish any more, then end it.

    Drops that were not answered are left to the coordinator, which settles the attempt, and to the audit.
    """
    drops = tuple(Drop(owner, model, attempt) for owner in owners)
    answers = (yield Together(drops)) if drops else ()
    yield End(attempt, settled=all(isinstance(answer, Reply) for answer in answers))
