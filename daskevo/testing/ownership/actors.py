"""What happens around the shards, as scripts: put, read, hold, release, retire, settle, audit - step by step.

A script yields calls, all sent at once, and gets their answers (None: none in time); an empty list is a pause.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from daskevo.ownership import messages as ask
from daskevo.ownership import replies as say
from daskevo.ownership.audit import claims_of, drops_all, question_to_home, remedies
from daskevo.ownership.model_record import ModelRecord
from daskevo.ownership.owner_map import OwnerEntry, OwnerMap
from daskevo.ownership.references import Claim
from daskevo.ownership.snapshot import FileView
from daskevo.ownership.state import Retirement
from daskevo.types import Attempt, ModelId, TensorSpec, Tick

if TYPE_CHECKING:
    from daskevo.ownership.holders import Holder
    from daskevo.testing.ownership.servers import Server
    from daskevo.testing.ownership.world import World

TENSORS = 3
"""Tensors per model: 0 is inherited unchanged, 1 inherited and changed, 2 never inherited."""


@dataclass(frozen=True)
class Send:
    """A message to a shard."""

    shard: int
    message: ask.Message


@dataclass(frozen=True)
class Ask:
    """A call of the coordinator."""

    name: str
    run: Callable[[], Any]


Call = Send | Ask
Script = Generator[list[Any], Any, str | None]


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


def put(
    world: World,
    holder: Holder,
    model: ModelId,
    ancestor: ModelId | None = None,
    fallback: ModelId | None = None,
    labels: tuple[str, ...] = ("user:a",),
) -> Script:
    """Make a model: begin, open, reserve, train, stage, publish, narrow, end. Returns put's verdict."""
    attempt = yield from _begin(world, holder, model)
    if attempt is None:
        return "not live"
    inherited: dict[int, OwnerEntry] | None = {}
    used = None
    for candidate in (ancestor, fallback):
        if candidate is None:
            continue
        inherited = yield from _reserve(world, holder, model, attempt, candidate)
        if inherited is not None:
            used = candidate
            break
        if world.behaviour.new_attempt_after_gone:
            yield [_end(world, attempt)]
            attempt = yield from _begin(world, holder, model)
            if attempt is None:
                return "not live"
    inherited = inherited or {}
    yield []  # training
    kept = {number: entry for number, entry in inherited.items() if number == 0}
    record = make_record(model, attempt, kept, used if inherited else None)
    owners = sorted({entry.owner for entry in inherited.values()})
    narrow = [
        world_send(world, ask.Drop(owner, model, attempt, numbers))
        for owner in owners
        if (numbers := frozenset(e.number for e in inherited.values() if e.owner == owner and e not in kept.values()))
    ]
    if narrow and not world.behaviour.narrow_after_publish:
        yield list(narrow)
    tick = yield from _retry(world, Ask("tick", lambda: world.coordinator.tick()))
    for label in labels:
        world.promises.issued(model, label, tick or attempt, held=True)
    answer = yield from _stage_and_publish(world, record, dict.fromkeys(labels, tick or attempt))
    if isinstance(answer, say.Verdict) and answer.attempt == attempt and answer.state != "aborted":
        if narrow:
            yield list(narrow)
        yield [_end(world, attempt)]
        return "stored"
    return (yield from _give_up(world, model, attempt, owners, answer))


def _reserve(
    world: World, holder: Holder, model: ModelId, attempt: Attempt, ancestor: ModelId
) -> Generator[Any, Any, dict[int, OwnerEntry] | None]:
    """Return the entries of tensors 0 and 1 that are reserved now; {}: no such ancestor; None: gone, given back."""
    (opened,) = yield [world_send(world, ask.Open(ancestor))]
    if not isinstance(opened, say.Opened):
        return {}
    entries = {number: opened.record.owner_map.entries[number] for number in (0, 1)}
    wanted: dict[ModelId, frozenset[int]] = {}
    for entry in entries.values():
        wanted[entry.owner] = wanted.get(entry.owner, frozenset()) | {entry.number}
    answers = yield [world_send(world, ask.Refer(o, model, attempt, n)) for o, n in wanted.items()]
    if all(isinstance(answer, say.Reserved) for answer in answers):
        world.promises.reserved(holder, model, attempt, wanted)
        return entries
    yield [world_send(world, ask.Drop(owner, model, attempt)) for owner in wanted]
    return None


def _stage_and_publish(world: World, record: ModelRecord, labels: dict[str, Tick]) -> Generator[Any, Any, Any]:
    home = world.home(record.model_id)
    segment = (record.model_id, record.attempt)
    if world.behaviour.segment_before_stage:
        world.disks[home].files.add(segment)
        yield []  # written, and not yet staged
    if not world.behaviour.separate_publish:
        answer = yield from _retry(world, Send(home, ask.Put(record, labels, 1)))
    else:
        answer = yield from _retry(world, Send(home, ask.Stage(record, 1)))
        if isinstance(answer, say.Ok):
            answer = yield from _retry(world, Send(home, ask.Publish(record.model_id, record.attempt, labels)))
    if not world.behaviour.segment_before_stage:
        world.disks[home].files.add(segment)
    return answer


def _give_up(world: World, model: ModelId, attempt: Attempt, owners: list[ModelId], answer: Any) -> Script:
    drops = [world_send(world, ask.Drop(owner, model, attempt)) for owner in owners]
    world.promises.given_back(attempt)
    if not world.behaviour.abort_before_drops and drops:
        yield drops
    verdict = yield from _retry(world, world_send(world, ask.Abort(model, attempt)))
    if not isinstance(verdict, say.Verdict):
        yield [_end(world, attempt, settled=False)]
        world.spawn("settle", settle(world))
        return "unknown"
    if verdict.state == "aborted" and drops:
        yield drops
    yield [_end(world, attempt)]
    if verdict.state != "aborted":
        return "stored"
    by_another = isinstance(answer, say.Refused) and answer.reason in ("published", "retiring", "retired")
    return "stored by another" if by_another else "failed"


def read(world: World, holder: Holder, model: ModelId) -> Script:
    """Read a whole model under a reader's attempt."""
    attempt = yield from _begin(world, holder, None)
    if attempt is None:
        return "not live"
    (opened,) = yield [world_send(world, ask.Open(model))]
    outcome = "gone"
    if isinstance(opened, say.Opened):
        uses = opened.record.owner_map.owners
        answers = yield [world_send(world, ask.Refer(owner, None, attempt, numbers)) for owner, numbers in uses.items()]
        if all(isinstance(answer, say.Reserved) for answer in answers):
            world.promises.reserved(holder, None, attempt, uses)
            yield []  # reading
            outcome = "read"
        world.promises.given_back(attempt)
        yield [world_send(world, ask.Drop(owner, None, attempt)) for owner in uses]
    yield [_end(world, attempt)]
    return outcome


def hold(world: World, model: ModelId, label: str) -> Script:
    """Add a label to a model."""
    tick = yield from _retry(world, Ask("tick", lambda: world.coordinator.tick()))
    if tick is None:
        return "no tick"
    world.promises.issued(model, label, tick, held=True)
    answer = yield from _retry(world, world_send(world, ask.Hold(model, label, tick)))
    return "held" if isinstance(answer, say.Labelled) else "refused"


def release(world: World, model: ModelId, label: str) -> Script:
    """Take a label from a model."""
    tick = yield from _retry(world, Ask("tick", lambda: world.coordinator.tick()))
    if tick is None:
        return "no tick"
    world.promises.issued(model, label, tick, held=False)
    yield from _retry(world, world_send(world, ask.Release(model, label, tick)))
    return "released"


def release_label(world: World, label: str) -> Script:
    """Take a label from all models of all shards, until each shard has answered."""
    tick = yield from _retry(world, Ask("tick", lambda: world.coordinator.tick()))
    if tick is None:
        return "no tick"
    world.promises.issued(None, label, tick, held=False)
    for shard in range(world.shards):
        yield from _retry(world, Send(shard, ask.ReleaseLabel(label, tick)), tries=5)
    return "released"


def in_turn(*scripts: Script) -> Script:
    """One script after the other."""
    outcome = None
    for script in scripts:
        outcome = yield from script
    return outcome


def retire(world: World, server: Server, retirement: Retirement) -> Script:
    """Home's provider carries a retirement out: drops at all other owners, then the tombstone."""
    for owner in retirement.uses if world.behaviour.retirement_drops else ():
        drop = ask.Drop(owner, retirement.model, retirement.attempt)
        while (yield [world_send(world, drop)]) == [None]:
            if not server.serving:
                return "home went"
    if server.serving:
        server.handle(ask.FinishRetirement(retirement.model, retirement.attempt))
    return "retired"


def settle(world: World) -> Script:
    """The coordinator settles attempts that ended without a word about their put."""
    coordinator = world.coordinator
    for due in coordinator.take_settling():
        verdict = None
        if due.model is not None and world.behaviour.settle_aborts_first:
            (verdict,) = yield [world_send(world, ask.Abort(due.model, due.attempt))]
            if verdict is None:
                coordinator.postpone(due)
                continue
        if drops_all((due.model, due.attempt), verdict) or not world.behaviour.settle_aborts_first:
            yield [Send(shard, ask.DropAttempt(due.model, due.attempt)) for shard in range(world.shards)]
        coordinator.settled(due)
    return "settled"


def audit(world: World, shard: int) -> Script:
    """A provider audits one of its shards."""
    rules = world.behaviour
    server = world.servers[shard]
    if server is None or not server.serving:
        return "not served"
    files = tuple(FileView(*segment) for segment in sorted(server.disk.files))
    snapshot = server.shard.snapshot(files)
    if not rules.files_need_a_verdict:
        server.delete_files(tuple(view.segment for view in files if view.segment not in snapshot.named_files))
    claims = claims_of(snapshot)
    (over,) = yield [Ask("over", lambda: world.coordinator.over([attempt for _, attempt in claims]))]
    if over is None:
        return "no coordinator"
    ended = [claim for claim, is_over in zip(claims, over, strict=True) if is_over or not rules.live_gets_no_verdict]
    asked = [claim for claim in ended if question_to_home(claim) is not None]
    answers: list[Any] = []
    if asked:
        questions = [question_to_home(claim) for claim in asked]
        answers = yield [world_send(world, question) for question in questions if question is not None]
    verdicts: dict[Claim, Any] = dict(zip(asked, answers, strict=True))
    for claim in asked:
        if verdicts[claim] is None and not rules.silence_is_no_verdict:
            verdicts[claim] = say.Verdict("aborted", claim[1])
    found = remedies(snapshot, {attempt for _, attempt in ended}, verdicts)
    for drop in found.drops:
        verdict = verdicts.get((drop.model, drop.attempt))
        published = isinstance(verdict, say.Verdict) and verdict.state == "published"
        if rules.drops_unused_of_published or not published:
            server.handle(drop)
    server.delete_files(found.files)
    return "audited"


def reopen(world: World, shard: int) -> Script:
    """A new coordinator has a shard opened, some time."""
    yield []
    server = world.servers[shard]
    if server is None or server.shard.state.generation < world.coordinator.generation:
        world.open(shard)
    return None


def move(world: World, shard: int) -> Script:
    """A shard gets another owner, some time."""
    yield []
    world.open(shard)
    return None


def world_send(world: World, message: ask.Message) -> Send:
    """Address a message to the shard that it is for."""
    assert message.addressee is not None
    return Send(world.home(message.addressee), message)


def make_record(
    model: ModelId, attempt: Attempt, inherited: dict[int, OwnerEntry], ancestor: ModelId | None
) -> ModelRecord:
    """Return the record of a model with three tensors, of which `inherited` are somebody else's."""
    digest = f"{attempt.generation:016x}{attempt.counter:016x}"
    entries = [inherited.get(number, OwnerEntry(model, number, digest, 1)) for number in range(TENSORS)]
    own = {number: TensorSpec((2,), "float32") for number in range(TENSORS) if number not in inherited}
    return ModelRecord(model, attempt, "scope", None, OwnerMap.of(entries), own, attempt, ancestor=ancestor)


def _end(world: World, attempt: Attempt, *, settled: bool = True) -> Ask:
    def run() -> str:
        world.coordinator.end(attempt, settled=settled)
        return "ended"

    return Ask("end", run)


def _begin(world: World, holder: Holder, model: ModelId | None) -> Generator[Any, Any, Any]:
    answer = yield from _retry(
        world, Ask("begin", lambda: world.coordinator.begin(holder, model, live=world.is_live(holder)) or "not live")
    )
    return answer if isinstance(answer, Tick) else None


def _retry(world: World, call: Call, tries: int | None = None) -> Generator[Any, Any, Any]:
    """Send the same message again until it is answered."""
    for _ in range(tries or world.behaviour.retries):
        (answer,) = yield [call]
        if answer is not None:
            return answer
    return None
