"""Rules of the audit, which removes what shards keep for ended attempts, and of `verify`, which finds violations.

Steps of the audit of a shard, which runs beside all other work::

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
    """A violation of the protocol."""

    kind: Kind
    model: ModelId | None
    words: str
    owner: ModelId | None = None
    """Owner of the tensors concerned, if there are any."""
    numbers: frozenset[int] = frozenset()
    """Numbers of these tensors at the owner."""


@dataclass(frozen=True)
class Remedies:
    """Result of the audit of one shard."""

    drops: tuple[Drop, ...]
    """Messages to the audited shard itself."""
    files: tuple[Segment, ...]
    """Segment files to delete, after a check of the epoch."""


def claims_of(snapshot: ShardSnapshot) -> list[Claim]:
    """Return the attempts for which a shard keeps bits, staged parts, or files that no record names."""
    # Without bits of models on their own tensors: these go with staged parts, which are claims themselves, or by
    # retirement.
    claims: dict[Claim, None] = {bits.claim: None for bits in snapshot.bits if bits.model != bits.owner}
    claims |= {view.segment: None for view in snapshot.staged}
    claims |= dict.fromkeys(_unnamed_files(snapshot))
    return list(claims)


def question_to_home(claim: Claim) -> Abort | None:
    """Return the message to the home shard about an ended attempt; None for a reader's, which can never publish."""
    model, attempt = claim
    return None if model is None else Abort(model, attempt)


def drops_all(claim: Claim, answer: Reply | None) -> bool:
    """Whether everything of an ended attempt can be removed; False without an answer."""
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
    """Return what can be removed from the audited shard.

    Parameters
    ----------
    snapshot
        The audited shard, taken before the coordinator was asked.
    over
        The attempts that are over according to the coordinator.
    verdicts
        Answers of the home shards to `question_to_home`; None or absent: no answer.
    give_up_lost
        Whether to drop also bits of attempts about which the home shard has lost its records, as a repair does. Such a
        shard refuses these attempts for good, so no readable model uses the bits; but it can't confirm that none did.
    """
    drops = []
    for bits in snapshot.bits:
        # A model's bits on its own tensors are in its home shard, where the `Abort` above has removed them.
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
    """Return all violations of the protocol over all shards of a repository at rest; nothing is changed.

    Bits and parts of live attempts are no leftovers.

    Parameters
    ----------
    snapshots
        Snapshots of all shards that could be read.
    unread
        Shards that could not be read. What only they know is reported as "not known": whether the tensors that their
        models own are stored, and whether references of their models are used.
    shards
        Number of shards of the repository.
    """
    unknown = _Unknown(frozenset(unread), shards)
    views = list(snapshots)
    models = {view.model: view for snapshot in views for view in snapshot.models}
    staged = {view.segment for snapshot in views for view in snapshot.staged}
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
            covered = bits.get((owner, view.segment), frozenset())
            for kind, missing in (("missing tensor", numbers - there), ("missing reference", numbers - covered)):
                if missing:
                    words = f"{view.model} uses tensors {sorted(missing)} of {owner}"
                    found.append(Difference(kind, view.model, words, owner, missing))  # type: ignore[arg-type]
    for (owner, (model, attempt)), numbers in bits.items():
        home = None if model is None else models.get(model)
        if home is not None and home.attempt == attempt and home.state != "retired":
            unused = numbers - home.uses.get(owner, frozenset())
        else:
            # Nothing published uses these bits. Only a staged model's bits on its own tensors are in order.
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
    # Files are judged within one shard only, so unread shards don't matter here.
    for snapshot in views:
        found += [Difference("unusable record", model, f"{model}: {words}") for model, words in snapshot.lost.items()]
        found += _file_differences(snapshot, over)
    return found + unknown.differences()


class _Unknown:
    """Collects what can't be known because shards can't be read."""

    def __init__(self, unread: frozenset[int], shards: int) -> None:
        self._unread = unread
        self._shards = shards
        self._heirs: dict[int, dict[ModelId, None]] = {}
        self._referrers: dict[int, dict[ModelId, None]] = {}

    def has(self, model: ModelId) -> bool:
        """Whether a model's home shard can't be read."""
        return bool(self._unread) and shard_of(model, self._shards) in self._unread

    def inherit(self, owner: ModelId, heir: ModelId) -> None:
        """Record a published model that uses tensors of an owner in an unread shard."""
        self._heirs.setdefault(shard_of(owner, self._shards), {})[heir] = None

    def refer(self, model: ModelId) -> None:
        """Record a model of an unread shard that refers to tensors in other shards, used or not."""
        self._referrers.setdefault(shard_of(model, self._shards), {})[model] = None

    def differences(self) -> list[Difference]:
        """Return one difference for each unread shard and open question."""
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
    """List up to five models, and the number of the others."""
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
