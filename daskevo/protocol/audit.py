"""The audit: what a shard keeps for attempts that are over, and what may go; and what `verify` finds wrong.

Steps, per shard, beside all other work::

    claims_of(snapshot)                      which attempts to ask about
    coordinator.over(attempts)               live: no verdict
    Abort(model, attempt) at its home        for those that are over; no answer: no verdict
    remedies(snapshot, over, verdicts)       what to drop here, which files may go
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from daskevo.protocol.hashing import shard_of
from daskevo.protocol.messages import Abort, Drop
from daskevo.protocol.references import Claim, Segment
from daskevo.protocol.replies import Reply, Verdict
from daskevo.protocol.snapshot import BitsView, ShardSnapshot
from daskevo.types import Attempt, ModelId

Kind = Literal[
    "damaged tensor",  # a stored tensor is not what was written, or its file is not there
    "damaged shard",  # its records can't be read: its models are not served
    "damaged marks",  # the list of what is lost can't be read
    "not known",  # what only a damaged shard could tell
    "missing tensor",  # a published map names a tensor that is not stored
    "missing reference",  # a published map's bits are missing at an owner
    "unusable record",  # a journal's record that can't be read, or doesn't fit: its model is lost, or lacks tensors
    "missing file",  # a record names a segment file that is not there
    "leftover reference",  # bits of an attempt that is over and unpublished, or that its map doesn't use
    "leftover staged",  # staged parts of an attempt that is over
    "leftover file",  # a segment file of an attempt that is over, and that no record names; what a died writer left
    "not rebuilt",  # a record that this Keras, or the classes that are registered here, make no model of
    "changed code",  # a record that makes a model, with code of a layer that is another than when it was stored
    "unfinished retirement",  # a model without labels that still waits for its last step
]


@dataclass(frozen=True)
class Difference:
    """Something that isn't as the protocol promises."""

    kind: Kind
    model: ModelId | None
    words: str
    owner: ModelId | None = None
    """Whose tensors are concerned, if any are."""
    numbers: frozenset[int] = frozenset()
    """Which, in its enumeration."""


@dataclass(frozen=True)
class Remedies:
    """What the audit of one shard ends in."""

    drops: tuple[Drop, ...]
    """Messages to the audited shard itself."""
    files: tuple[Segment, ...]
    """Segment files that may be deleted, after a look at the epoch."""


def claims_of(snapshot: ShardSnapshot) -> list[Claim]:
    """Return the attempts that a shard keeps something for: bits, staged parts, files that no record names."""
    claims: dict[Claim, None] = {bits.claim: None for bits in snapshot.bits if bits.model != bits.owner}
    claims |= {(view.model, view.attempt): None for view in snapshot.staged}
    claims |= dict.fromkeys(_unnamed_files(snapshot))
    return list(claims)


def question_to_home(claim: Claim) -> Abort | None:
    """Return what to ask home about an attempt that is over; None for a reader's: it can never publish."""
    model, attempt = claim
    return None if model is None else Abort(model, attempt)


def drops_all(claim: Claim, answer: Reply | None) -> bool:
    """Whether everything of an attempt that is over may go. No answer, no verdict."""
    if claim[0] is None:
        return True
    return isinstance(answer, Verdict) and answer.attempt == claim[1] and answer.state in ("aborted", "retired")


def remedies(
    snapshot: ShardSnapshot,
    over: Container[Attempt],
    verdicts: Mapping[Claim, Reply | None],
    *,
    give_up_lost: bool = False,
) -> Remedies:
    """Return what may go from the audited shard.

    Parameters
    ----------
    snapshot
        The audited shard, taken before the questions were asked.
    over
        The attempts that the coordinator calls over.
    verdicts
        What each home answered to `question_to_home`; None or absent: it gave no answer.
    give_up_lost
        Drop also what attempts have whose home has lost what it knew of them: as a repair does. Such a home refuses
        them for good, so nothing that could be read uses those bits; but nobody has said that nothing ever did.
    """
    drops = []
    for bits in snapshot.bits:
        # A model's bits on its own tensors are its home's affair: the question itself has settled them.
        if bits.model == bits.owner or bits.attempt not in over:
            continue
        answer = verdicts.get(bits.claim)
        going = bits.numbers if give_up_lost and _has_lost(answer, bits.attempt) else _superfluous(bits, answer)
        if going:
            drops.append(Drop(bits.owner, bits.model, bits.attempt, going))
    files = tuple(
        segment
        for segment in _unnamed_files(snapshot)
        if segment[1] in over and drops_all(segment, verdicts.get(segment))
    )
    return Remedies(tuple(drops), files)


def differences(
    snapshots: Iterable[ShardSnapshot], over: Container[Attempt], *, unread: Collection[int] = (), shards: int = 1
) -> list[Difference]:
    """Return everything that isn't as promised, over all shards of a repository at rest; nothing is changed.

    What live attempts hold is not called a leftover.

    Parameters
    ----------
    snapshots
        Of all shards that could be read.
    unread
        Shards that could not. What only they can tell is called "not known", never a difference: whether the tensors
        that their models own are there, and whether references of their models are used.
    shards
        Number of shards of the repository.
    """
    unknown = _Unknown(frozenset(unread), shards)
    views = list(snapshots)
    models = {view.model: view for snapshot in views for view in snapshot.models}
    staged = {(view.model, view.attempt) for snapshot in views for view in snapshot.staged}
    bits = {(entry.owner, entry.claim): entry.numbers for snapshot in views for entry in snapshot.bits}
    found = []
    for view in models.values():
        if view.state == "retiring":
            found.append(Difference("unfinished retirement", view.model, f"{view.model} has no label left"))
        if view.state != "published":
            continue
        for owner, numbers in view.uses.items():
            if unknown.has(owner):
                unknown.inherit(owner, view.model)
                continue
            there = models[owner].alive if owner in models else frozenset()
            covered = bits.get((owner, (view.model, view.attempt)), frozenset())
            for kind, missing in (("missing tensor", numbers - there), ("missing reference", numbers - covered)):
                if missing:
                    words = f"{view.model} uses tensors {sorted(missing)} of {owner}"
                    found.append(Difference(kind, view.model, words, owner, missing))  # type: ignore[arg-type]
    for (owner, (model, attempt)), numbers in bits.items():
        home = None if model is None else models.get(model)
        if home is not None and home.attempt == attempt and home.state != "retired":
            unused = numbers - home.uses.get(owner, frozenset())
        else:
            unused = frozenset() if model == owner and (model, attempt) in staged else numbers
        if unused and attempt in over:
            if model is not None and unknown.has(model):
                unknown.refer(model)
                continue
            words = f"{model or 'a reader'}, attempt {tuple(attempt)}, still refers to {sorted(unused)} of {owner}"
            found.append(Difference("leftover reference", model, words))
    for model, attempt in sorted(staged):
        if attempt in over:
            words = f"{model}, attempt {tuple(attempt)}, is staged and over"
            found.append(Difference("leftover staged", model, words))
    for snapshot in views:
        found += [Difference("unusable record", model, f"{model}: {words}") for model, words in snapshot.lost.items()]
        found += _file_differences(snapshot, over)
    return found + unknown.differences()


class _Unknown:
    """What can't be known because shards can't be read."""

    def __init__(self, unread: frozenset[int], shards: int) -> None:
        self._unread = unread
        self._shards = shards
        self._heirs: dict[int, dict[ModelId, None]] = {}
        self._referrers: dict[int, dict[ModelId, None]] = {}

    def has(self, model: ModelId) -> bool:
        """Whether a model's home is one of them."""
        return bool(self._unread) and shard_of(model, self._shards) in self._unread

    def inherit(self, owner: ModelId, heir: ModelId) -> None:
        """Note a published model that uses tensors of an owner there."""
        self._heirs.setdefault(shard_of(owner, self._shards), {})[heir] = None

    def refer(self, model: ModelId) -> None:
        """Note a model of theirs that refers to tensors elsewhere, used or not."""
        self._referrers.setdefault(shard_of(model, self._shards), {})[model] = None

    def differences(self) -> list[Difference]:
        """Return one for each shard and question."""
        found = []
        for noted, question in (
            (self._heirs, "whether the tensors are there that {} inherited from it"),
            (self._referrers, "whether what {} refer to is still used"),
        ):
            for shard, models in sorted(noted.items()):
                words = question.format(_some(models))
                found.append(Difference("not known", None, f"{words}, because shard {shard} can't be read"))
        return found


def _some(models: Iterable[ModelId]) -> str:
    """Name models, not more than a few."""
    names = sorted(models)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _superfluous(bits: BitsView, answer: Reply | None) -> frozenset[int]:
    if drops_all(bits.claim, answer):
        return bits.numbers
    if isinstance(answer, Verdict) and answer.attempt == bits.attempt and answer.state == "published":
        return bits.numbers - answer.uses.get(bits.owner, frozenset())
    return frozenset()


def _has_lost(answer: Reply | None, attempt: Attempt) -> bool:
    return isinstance(answer, Verdict) and answer.attempt == attempt and answer.state == "lost"


def _unnamed_files(snapshot: ShardSnapshot) -> list[Segment]:
    named = snapshot.named_files
    return [file.segment for file in snapshot.files or () if file.segment not in named]


def _file_differences(snapshot: ShardSnapshot, over: Container[Attempt]) -> list[Difference]:
    if snapshot.files is None:
        return []
    there = {file.segment for file in snapshot.files}
    found = [
        Difference("missing file", model, f"the segment of {model}, attempt {tuple(attempt)}, is not there", model)
        for model, attempt in sorted(snapshot.named_files - there)
    ]
    found += [
        Difference("leftover file", model, f"no record names the segment of {model}, attempt {tuple(attempt)}")
        for model, attempt in _unnamed_files(snapshot)
        if attempt in over
    ]
    return found
