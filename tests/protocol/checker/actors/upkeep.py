"""What providers and the coordinator do by themselves: retire, settle, audit, renew, rewrite, move, open again."""

from __future__ import annotations

from daskevo.errors import SchedulerUnreachable
from daskevo.protocol import scripts
from daskevo.protocol.references import Segment
from daskevo.protocol.state import Retirement
from tests.protocol.checker.actors import mutants
from tests.protocol.checker.actors.language import Do, Run, Stage, play, script


@script
def retire(stage: Stage, retirement: Retirement) -> Run:
    """Home's provider carries a retirement out."""
    run = scripts.retire(retirement)
    if not stage.behaviour.retirement_tries_again:
        run = mutants.without_second_try(run)
    yield from play(stage, run, patient=True)
    return "retired"


@script
def settle(stage: Stage) -> Run:
    """The coordinator settles attempts that ended without a word about their put."""
    dues = yield Do("take settling")
    for due in dues:
        run = scripts.settle(due)
        if not stage.behaviour.settle_aborts_first:
            run = mutants.without_abort(run)
        settled = yield from play(stage, run)
        yield Do("settled" if settled else "postpone", (due,))
    return "settled"


@script
def audit(stage: Stage) -> Run:
    """A provider audits one of its shards."""
    try:
        yield from play(stage, mutants.audit_without(stage.behaviour, scripts.audit()))
    except SchedulerUnreachable:
        return "no coordinator"
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
