"""What providers and the coordinator do by themselves: retire, settle, audit, renew, rewrite, move, open again."""

from __future__ import annotations

from typing import Any

from daskevo.protocol import replies as say
from daskevo.protocol import scripts
from daskevo.protocol.audit import claims_of, question_to_home, remedies
from daskevo.protocol.references import Claim, Segment
from daskevo.protocol.state import Retirement
from tests.protocol.checker.actors import mutants
from tests.protocol.checker.actors.language import Ask, Do, Run, Stage, play, script, send_to


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
    rules = stage.behaviour
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
