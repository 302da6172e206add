"""State machine of one shard: it turns messages into decisions, by the protocol's rules for home shards and owners.

The caller carries out a decision in this order, holding one lock per shard::

    decision = shard.decide(message)            changes nothing
    append decision.records to the journal      flush if decision.flush
    check the epoch                             if decision.check
    for record in decision.records: effects = shard.apply(record), carry out effects
    answer decision.reply

Records are applied after the flush, so that no reader sees a record that a crash could undo.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import singledispatchmethod
from itertools import chain

from daskevo.errors import InvalidInput, RepositoryTaken
from daskevo.protocol import messages as ask
from daskevo.protocol import records as write
from daskevo.protocol import replies as say
from daskevo.protocol.limits import MAX_LABELS
from daskevo.protocol.model_record import ModelRecord
from daskevo.protocol.references import Claim, mask_of, numbers_in
from daskevo.protocol.replay import JournalReplay
from daskevo.protocol.snapshot import FileView, ShardSnapshot, snapshot_of
from daskevo.protocol.state import Effects, Model, Retirement, ShardState
from daskevo.types import Attempt, ModelId, Tick


@dataclass(frozen=True)
class Decision:
    """The reply to a message, and the records to write before it is sent.

    `flush`: everything appended so far must be flushed before the answer. It is set also without records, if a
    repeated message finds its work done: the flush of the first one may still be running.
    `check`: the epoch must be checked between the flush and the answer.
    """

    reply: say.Reply
    records: tuple[write.Record, ...] = ()
    flush: bool = False
    check: bool = True


class Shard:
    """One shard: the records of some models, and the references to their tensors.

    Parameters
    ----------
    number
        The shard's number.
    generation
        Generation of the coordinator that opens the shard.
    records
        Records of the newest complete journal, in order. The opener then writes `head` to a journal of its own.
    floor
        Set if the shard's former content is lost: the shard gives no verdict about attempts before this tick.

    Attributes
    ----------
    opening : Effects
        Effects of the opening: staged parts of older generations are freed. It includes segments that the records had
        freed, since the previous owner may have died before it deleted their files.
    lost : dict
        Models that are lost, or may lack tensors, because records can't be used -> description.

    Raises
    ------
    RepositoryTaken
        If the journal has a higher generation: another job has taken the repository over.
    CorruptRecord
        If a record that concerns the whole shard does not fit the state.
    """

    state_class = ShardState

    def __init__(
        self,
        number: int,
        generation: int,
        records: Iterable[write.Record] = (),
        floor: Tick = write.BEGINNING,
    ) -> None:
        self.number = number
        self.state = self.state_class()
        replay = JournalReplay(self.state, records)
        freed, self.lost = replay.freed, replay.lost
        if self.state.generation > generation:
            raise RepositoryTaken(
                f"shard {number} was opened under generation {self.state.generation}, after this job's "
                f"{generation}: another job has taken the repository over",
                shard=number,
                generation=self.state.generation,
            )
        effects = self.state.apply(write.Generation(generation, floor))
        freed.update(dict.fromkeys(effects.segments))
        # A segment freed early in the journal may have been stored again by a later record.
        alive = self.state.references.alive
        self.opening = replace(effects, segments=tuple(segment for segment in freed if segment not in alive))

    def apply(self, record: write.Record) -> Effects:
        """Apply one record that has been appended (and flushed, if the decision asks for it)."""
        return self.state.apply(record)

    def head(self) -> list[write.Record]:
        """Return records that recreate the state exactly."""
        return self.state.head()

    def heeds(self, generation: float) -> bool:
        """Whether a coordinator of that generation may close or open this shard; earlier generations may not."""
        return generation >= self.state.generation

    @singledispatchmethod
    def decide(self, message: ask.Message) -> Decision:
        """Decide on a message, without changing anything.

        Raises
        ------
        InvalidInput
            If the message is not for a shard.
        """
        raise InvalidInput(f"a shard can't be asked {type(message).__name__}")

    @decide.register
    def _(self, message: ask.Open) -> Decision:
        model = self.state.find(message.model)
        if model is None or model.state != "published":
            return Decision(self._in_the_way(message.model), check=False)
        # Not checked: a record may be stale at once anyway, and reserving its tensors checks the epoch.
        return Decision(say.Opened(model.record, tuple(sorted(model.held))), check=False)

    @decide.register
    def _(self, message: ask.Status) -> Decision:
        model = self.state.find(message.model)
        staged = tuple(sorted(self.state.staged.get(message.model, ())))
        if model is None:
            return Decision(say.Standing("staged" if staged else "unknown", staged=staged))
        return Decision(say.Standing(model.state, model.record, tuple(sorted(model.held)), staged))

    @decide.register
    def _(self, message: ask.Refer) -> Decision:
        # Bits of a model at its own id cover its own segment, so they could not be told from a reservation.
        if message.model == message.owner:
            return Decision(say.Refused("itself"))
        # The next audit would drop the bits of such an attempt while its holder counts on them.
        if self._is_past(message.attempt):
            return Decision(say.Refused("over"))
        references, wanted = self.state.references, mask_of(message.numbers)
        published = references.published.get(message.owner)
        missing = wanted & ~references.there(message.owner)
        # All or nothing: an attempt that inherits a prefix can't use it with holes.
        if published is None or missing:
            return Decision(say.Refused("gone", missing=numbers_in(missing)))
        reply = say.Reserved(message.owner, published)
        if not wanted & ~references.of(message.owner, (message.model, message.attempt)):
            return Decision(reply, flush=True)  # a repeated message
        record = write.Referred(message.owner, message.model, message.attempt, message.numbers)
        return Decision(reply, (record,), flush=True)

    @decide.register
    def _(self, message: ask.Restore) -> Decision:
        references, wanted = self.state.references, mask_of(message.numbers)
        missing = wanted & ~references.there(message.owner)
        if message.owner not in references.published or missing:
            return Decision(say.Refused("gone", missing=numbers_in(missing)))
        if not wanted & ~references.of(message.owner, (message.model, message.attempt)):
            return Decision(say.Ok(), flush=True)
        return Decision(
            say.Ok(), (write.Referred(message.owner, message.model, message.attempt, message.numbers),), flush=True
        )

    @decide.register
    def _(self, message: ask.Drop) -> Decision:
        # A model's bits on its own tensors are removed by abort or retirement only.
        if message.owner == message.model:
            return Decision(say.Ok())
        # Not flushed, nor are drops below: an audit does again what a crash undoes.
        return Decision(say.Ok(), self._drop(message.owner, (message.model, message.attempt), message.numbers))

    @decide.register
    def _(self, message: ask.DropAttempt) -> Decision:
        claim = (message.model, message.attempt)
        owners = self.state.references.owners_of(claim)
        return Decision(say.Ok(), tuple(record for owner in owners for record in self._drop(owner, claim, None)))

    @decide.register
    def _(self, message: ask.Stage) -> Decision:
        refusal = self._refuse_to_stage(message.record)
        if refusal is not None:
            return Decision(refusal)
        # Not flushed: to publish flushes the journal up to its own record, and this one stands before it.
        return Decision(say.Ok(), self._stage(message.record, message.file_bytes))

    @decide.register
    def _(self, message: ask.Publish) -> Decision:
        # Before any refusal: a repeated message has to get the verdict of the first.
        known = self._known(message.model, message.attempt)
        if known is not None:
            return known
        refusal = self._refuse_attempt(message.model, message.attempt)
        if refusal is None and message.attempt not in self.state.staged.get(message.model, {}):
            refusal = say.Refused("not staged")
        if refusal is not None:
            return Decision(refusal)
        staged = self.state.staged[message.model][message.attempt].record
        return self._publish(staged, message.labels, ())

    @decide.register
    def _(self, message: ask.Put) -> Decision:
        record = message.record
        known = self._known(record.model_id, record.attempt)
        if known is not None:
            return known
        refusal = self._refuse_to_stage(record)
        if refusal is not None:
            return Decision(refusal)
        return self._publish(record, message.labels, self._stage(record, message.file_bytes))

    @decide.register
    def _(self, message: ask.Abort) -> Decision:
        model, attempt = message.model, message.attempt
        known = self._known(model, attempt)
        if known is not None:
            return known
        if attempt < self.state.floor:
            return Decision(say.Verdict("lost", attempt))
        reply = say.Verdict("aborted", attempt)
        # Attempts of past generations are refused as a whole, and their staged parts were freed at the opening, so
        # nothing is written. All others get a fence, also if this shard has never heard of them: their put may still be
        # on its way, and must be refused when it arrives.
        if attempt.generation < self.state.generation or attempt in self.state.fences.get(model, ()):
            return Decision(reply, flush=True)
        return Decision(reply, (write.Aborted(model, attempt),), flush=True)

    @decide.register
    def _(self, message: ask.Hold) -> Decision:
        model = self.state.find(message.model)
        if model is None or model.state != "published":
            return Decision(self._in_the_way(message.model), flush=True)
        if message.tick.generation < self.state.generation:
            # Ticks of released labels are kept for one generation only, so it can't be told whether this message is
            # late. The caller repeats it with a new tick.
            return Decision(say.Refused("over"), flush=True)
        if message.tick <= max(self._ended(message.label), _tick_of(model, message.label)):
            return Decision(_labelled(model, set(model.held)), flush=True)
        _check_labels(message.model, {message.label, *model.held, *model.released})
        record = write.LabelHeld(message.model, message.label, message.tick)
        return Decision(_labelled(model, {*model.held, message.label}), (record,), flush=True)

    @decide.register
    def _(self, message: ask.Release) -> Decision:
        model = self.state.find(message.model)
        if model is None:
            return Decision(say.Refused("unknown"))
        if model.state != "published" or message.tick <= _tick_of(model, message.label):
            return Decision(_labelled(model, set(model.held)), flush=True)
        return self._release(message.model, model, {message.label: message.tick})

    @decide.register
    def _(self, message: ask.Retire) -> Decision:
        model = self.state.find(message.model)
        if model is None:
            return Decision(say.Refused("unknown"))
        # Labels that were added after the caller took its tick stay, and with them the model.
        released = {label: message.tick for label, tick in model.held.items() if tick < message.tick}
        if not released:
            return Decision(_labelled(model, set(model.held)), flush=True)
        return self._release(message.model, model, released)

    @decide.register
    def _(self, message: ask.ReleaseLabel) -> Decision:
        if message.tick <= self._ended(message.label):
            return Decision(say.LabelGone(), flush=True)
        holders = self.state.holders(message.label, message.tick)
        reply = say.LabelGone(tuple(sorted(holders)), tuple(sorted(model for model, last in holders.items() if last)))
        return Decision(reply, (write.LabelEnded(message.label, message.tick),), flush=True)

    @decide.register
    def _(self, message: ask.FinishRetirement) -> Decision:
        model = self.state.find(message.model)
        if model is None or model.record.attempt != message.attempt or model.state == "published":
            return Decision(say.Refused("unknown" if model is None else "published"))
        # Not flushed: if the record is lost, whoever opens the shard next carries out the retirement again.
        return Decision(say.Ok(), (write.Retired(message.model),) if model.state == "retiring" else ())

    def retiring(self) -> list[Retirement]:
        """Return the unfinished retirements, to be continued after opening."""
        return [
            self.state.retirement(model_id)
            for model_id, model in self.state.models.items()
            if model.state == "retiring"
        ]

    def snapshot(self, files: tuple[FileView, ...] | None = None) -> ShardSnapshot:
        """Return a snapshot for audit and `verify`; `files` was listed before, if there is a folder."""
        return snapshot_of(self.number, self.state, files, self.lost)

    def records(self, state: say.ModelState = "published") -> Iterator[ModelRecord]:
        """Yield the records of all models in a state; those of retired models may be tombstones."""
        models = (model.record for model in self.state.models.values() if model.state == state)
        stones = self.state.tombstones.values() if state == "retired" else ()
        return chain(models, (stone.record for stone in stones))

    def _ended(self, label: str) -> Tick:
        """Return the last tick with which a label was released from all models."""
        return self.state.ended_labels.get(label, write.BEGINNING)

    def _is_past(self, attempt: Attempt) -> bool:
        return attempt.generation < self.state.generation or attempt < self.state.floor

    def _in_the_way(self, model_id: ModelId) -> say.Refused:
        model = self.state.find(model_id)
        if model is None:
            return say.Refused("unknown")
        return say.Refused(model.state, model.record.attempt, model.record)

    def _known(self, model_id: ModelId, attempt: Attempt) -> Decision | None:
        """Return the verdict on an attempt that was published, which is final; None if it was not."""
        model = self.state.find(model_id)
        if model is None or model.record.attempt != attempt:
            return None
        # A retired model has dropped its bits at other owners, so its map uses nothing any more.
        uses = {} if model.state == "retired" else model.record.inherited
        return Decision(say.Verdict(model.state, attempt, uses), flush=True)

    def _refuse_attempt(self, model_id: ModelId, attempt: Attempt) -> say.Refused | None:
        if self.state.find(model_id) is not None:
            return self._in_the_way(model_id)
        if self._is_past(attempt):
            return say.Refused("over")
        if attempt in self.state.fences.get(model_id, ()):
            return say.Refused("aborted")
        return None

    def _refuse_to_stage(self, record: ModelRecord) -> say.Refused | None:
        refusal = self._refuse_attempt(record.model_id, record.attempt)
        if refusal is None:
            staged = self.state.staged.get(record.model_id, {}).get(record.attempt)
            if staged is not None and staged.record != record:
                return say.Refused("differs")
        return refusal

    def _stage(self, record: ModelRecord, file_bytes: int | None) -> tuple[write.Record, ...]:
        if record.attempt in self.state.staged.get(record.model_id, {}):
            return ()
        return (write.Staged(record, file_bytes),)

    def _publish(self, record: ModelRecord, labels: dict[str, Tick], staged: tuple[write.Record, ...]) -> Decision:
        # A label that was released from all models after its tick counts as released from this one, too. If no other
        # label is left, the model is published and retired at once.
        held = {label: tick for label, tick in labels.items() if tick > self._ended(label)}
        _check_labels(record.model_id, held)
        published = write.Published(record.model_id, record.attempt, held)
        reply = say.Verdict("published" if held else "retiring", record.attempt, record.inherited)
        return Decision(reply, (*staged, published), flush=True)

    def _release(self, model_id: ModelId, model: Model, released: dict[str, Tick]) -> Decision:
        left = model.held.keys() - released.keys()
        if left:
            return Decision(_labelled(model, left), (write.LabelsReleased(model_id, released),), flush=True)
        return Decision(say.Labelled("retiring"), (write.Retiring(model_id, released),), flush=True)

    def _drop(self, owner: ModelId, claim: Claim, numbers: frozenset[int] | None) -> tuple[write.Record, ...]:
        there = self.state.references.of(owner, claim)
        dropped = there if numbers is None else there & mask_of(numbers)
        return (write.Dropped(owner, *claim, numbers_in(dropped)),) if dropped else ()


def _check_labels(model_id: ModelId, labels: Collection[str]) -> None:
    if len(labels) > MAX_LABELS:
        raise InvalidInput(
            f"{model_id!r} would have had {len(labels)} labels since the repository was opened, and {MAX_LABELS} is "
            "the limit: use fewer names, or keep such facts in `extra`",
            model_id=model_id,
        )


def _tick_of(model: Model, label: str) -> Tick:
    """Return the highest tick that has added or removed this label of the model."""
    return model.held.get(label, model.released.get(label, write.BEGINNING))


def _labelled(model: Model, labels: Iterable[str]) -> say.Labelled:
    return say.Labelled(model.state, tuple(sorted(labels)))
